#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/key_digest.h"
#include "limit/step.h"
#include "weir/clock.h"
#include "weir/result.h"

namespace weir::store::redis {

// Gives counters their names in Redis.
//
//   counter  prefix ":1:{" tag "}" identity *("/" value)
//   record   counter "!" worker "." window  what a worker's owed units were applied up to
//   total    counter "!." window            what all workers told of it
//   meta     prefix ":1:{!" shard "}" name  the fleet's own keys
// And those that store::Kept::envoyproxy means: name start, in whole seconds since 1970.
//
// docs/internals/redis-keys.md holds the whole grammar and an example with bytes.
//
// Guarantees:  two counters share a name only if their structural keys are equal; names under two
// prefixes never meet. The tag is a keyed hash of the values (of the identity where there are
// none), so no value steers a slot, and rules counted by the same values share one. So does what
// stands beside a rule's counter (see KeyWriter::beside()). Printable ASCII.
// Threads:     immutable.
class KeySpace {
 public:
  // `prefix` sets environments apart; `secret` keys the tags and must be the same in a fleet.
  // Errors:      invalid_argument: a prefix that is empty, above 64 bytes, or holds anything but
  // letters, digits and "_.:-".
  static Result<KeySpace> make(std::string_view prefix, std::string_view secret);

  // Each appends one name to `out`. `key` is what policy::KeyWriter wrote.
  void append_counter(std::string_view key, std::string& out) const;
  void append_record(std::string_view key, std::uint64_t worker, Instant window,
                     std::string& out) const;
  void append_total(std::string_view key, Instant window, std::string& out) const;
  // The slot of a Redis Cluster that the counter of `key` lies in, with all its records.
  std::uint16_t slot(std::string_view key) const;
  // The window of a counter that is kept as envoyproxy/ratelimit keeps it.
  static void append_envoyproxy(std::string_view key, const limit::Window& window,
                                std::string& out);
  // The slot of it, which is another one in each window.
  static std::uint16_t envoyproxy_slot(std::string_view key, const limit::Window& window);
  // `shard` steers all keys of one shard into one slot; empty: a single server.
  void append_meta(std::string_view shard, std::string_view name, std::string& out) const;

  // A name as counters have theirs, and no counter's, in the slot of that shard's own keys: where
  // it is found out whether counters can be kept.
  //
  // Cost:        some 16,000 hashes.
  std::string trial(std::string_view shard) const;

  std::string counter(std::string_view key) const;
  std::string meta(std::string_view shard, std::string_view name) const;
  // What every name begins with.
  const std::string& root() const noexcept { return root_; }

 private:
  KeySpace(std::string root, const KeyHasher::Secret& secret)
      : root_(std::move(root)), tags_(secret) {}

  static constexpr int kTagLetters = 6;
  void put_tag(std::string_view key, char* tag) const;

  std::string root_;  // prefix ":1:"
  KeyHasher tags_;
};

}  // namespace weir::store::redis
