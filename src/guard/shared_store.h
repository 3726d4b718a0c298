#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "ladder/shard_ladder.h"
#include "policy/model.h"
#include "render/metrics.h"
#include "store/counter.h"
#include "store/local_store.h"
#include "weir/clock.h"
#include "weir/observer.h"
#include "weir/result.h"

namespace weir::guard {

// One decision under way on a shared store. Whoever asks owns it, and everything it points to,
// until decided().
class SharedAsk {
 public:
  virtual ~SharedAsk() = default;
  // Called exactly once, in the asking thread or in the store's. findings() hold what was found.
  virtual void decided(const ladder::LadderVerdict& verdict, Instant store_now) noexcept = 0;

  ladder::LadderRequest request;
  MonoTime answer_by{};  // decided by then, whatever happens
  Instant loaded_at{};   // when the policy of its numbers was loaded
  std::span<store::Finding> findings() noexcept {
    return {findings_.data(), request.counters.size()};
  }

 private:
  std::array<store::Finding, store::kMaxCounters> findings_;
};

// A fleet's counters on one Redis, and what happens while it does not answer.
//
// A thread of its own speaks to the server over one pipelined connection; callers hand it their
// asks through a bounded queue. What can be decided without the server is decided in the caller's
// thread.
//
// Threads:     any number at once.
class SharedStore {
 public:
  // Most asks between the callers and the connection; more are decided without the store.
  static constexpr std::size_t kMaxQueued = 8'192;

  // Connects, and waits for the first answer no longer than the spec's connect timeout and deadline
  // together.
  //
  // Errors:      invalid_argument (the URL, the prefix, the password file); failed_precondition
  // (what this release does
  //              not do on a shared store); under `startup: require` also what the server said, or
  //              that it did not answer.
  static Result<std::unique_ptr<SharedStore>> open(const policy::Model& model, Clock& clock,
                                                   render::Metrics& metrics, Observer* observer);
  ~SharedStore();
  SharedStore(const SharedStore&) = delete;
  SharedStore& operator=(const SharedStore&) = delete;

  // Decides; see SharedAsk.
  void decide(SharedAsk& ask) noexcept;
  // Decides without the server: for a caller whose patience ended while its ask was still on the
  // way.
  ladder::LadderVerdict decide_without(const ladder::LadderRequest& request,
                                       std::span<store::Finding> findings) noexcept;

  // Whether the policy's routes can be held on this store: asked at open and at every reload.
  static Result<void> check(const policy::Model& model);

  // The store's time now, as well as it is known here.
  ladder::Moment moment() const noexcept;
  Nanos deadline() const noexcept;
  bool answering() const noexcept;
  // Counters whose last known state is kept here.
  std::uint64_t known_keys() const;
  // The state for people and machines: one JSON object.
  std::string state_json() const;

 private:
  class Impl;
  explicit SharedStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace weir::guard
