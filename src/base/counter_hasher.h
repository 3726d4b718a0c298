#pragma once

#include <string_view>

#include "base/key_digest.h"
#include "base/sip_hash.h"

namespace weir {

// Digests the keys of counters: on the way of every decision.
//
// A fleet's workers must digest alike, from release to release, and make their secret of what they
// all know: SipHash-2-4, as KeyHasher. One process draws its secret, forgets it when it ends, and
// shows no digest to those who choose the keys; there SipHash-1-3 does, the form that Rust, Python
// and Ruby keep hash tables with, in two thirds of the time.
//
// Guarantees:  as KeyHasher.
// Threads:     immutable. No allocation.
class CounterHasher {
 public:
  static CounterHasher of_process() { return {KeyHasher::random_secret(), false}; }
  static CounterHasher of_fleet(const KeyHasher::Secret& secret) { return {secret, true}; }

  KeyDigest operator()(std::string_view bytes) const noexcept;
  // The digest of the bytes of `head`, little endian, then `byte`, then `rest`. What was written a
  // moment ago in other widths is waited for by who reads it back; this way nobody has to.
  KeyDigest operator()(std::uint64_t head, unsigned char byte,
                       std::string_view rest) const noexcept;

 private:
  CounterHasher(const KeyHasher::Secret& secret, bool fleet) noexcept
      : of_process_(secret), of_fleet_(secret), fleet_(fleet) {}

  SipHash<1, 3> of_process_;
  SipHash<2, 4> of_fleet_;
  bool fleet_;
};

}  // namespace weir
