#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/counter_hasher.h"
#include "base/key_digest.h"
#include "base/raw_array.h"
#include "guard/bound_policy.h"
#include "guard/request_name.h"
#include "policy/key.h"
#include "policy/read_route.h"
#include "policy/rule_draft.h"
#include "store/counter.h"
#include "weir/guard.h"

namespace weir::guard {

using policy::kMaxRules;

// Where a rule finds the values of a request.
class Values {
 public:
  virtual ~Values() = default;
  // The value of a source, or null data() where the request lacks it. Valid as long as the request.
  virtual std::string_view value(const policy::Source& source) const noexcept = 0;
  // Why the values asked for so far may not be counted by: a sentence, a literal. Empty: they may.
  virtual std::string_view fault() const noexcept { return {}; }
};

// The counters that one request is about: which rules apply, with which numbers, under which keys.
// Large and left uninitialised on purpose: it lives on the caller's stack, and only what is used is
// written.
struct Plan {
  enum class Outcome : std::uint8_t { ready, nothing_applies, missing_value, unreadable };
  // Two counters that hold one unit a day: of the key, and of the key with this request. Charged
  // with the rules' counters, all or nothing, they make a store say which requests it admitted
  // before. They stand beside the first metered rule's counter.
  static constexpr std::size_t kMarks = 2;
  static constexpr std::size_t kMarkBytes = policy::KeyWriter::kMaxBesideBytes;

  const BoundRoute* route = nullptr;
  std::size_t count = 0;
  std::size_t absent = 0;  // values the request lacked
  bool shadows = false;    // some counters never deny
  // Of missing_value: the rule that needs a value, and the source of it.
  const BoundRule* strict = nullptr;
  std::string_view lacking;
  std::string_view fault;  // of unreadable
  // Behind the rules' counters, the marks of the request's idempotency key.
  RawArray<store::Counter, kMaxRules + kMarks> counters;
  RawArray<const BoundRule*, kMaxRules> rules;

  std::size_t marks = 0;  // 0 or kMarks
  std::string request_key;
  RequestName request;

  std::span<const store::Counter> asked() const noexcept {
    return {counters.data(), count + marks};
  }

  Plan() noexcept {}  // NOLINT: see above
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  // Fills the plan for one request of `units` on `to`.
  //
  // Cost:        no allocation.
  Outcome make(const BoundRoute& to, const BoundPolicy& policy, const Values& values,
               std::uint64_t units, const CounterHasher& hasher,
               const ValueDigester& digester) noexcept;

  // The rules' counters that this request is charged, to be drained.
  std::vector<store::Counter> drains() const;

  // Names the request, whose `metered` counters (bit by bit) are its tenant's. After make().
  void name_request(std::string_view key, std::uint64_t metered, const CounterHasher& hasher,
                    const ValueDigester& digester);

  // What the marks say, of a store's findings.
  enum class Marked : std::uint8_t { fresh, replayed, conflict };
  Marked marked(std::span<const store::Finding> findings) const noexcept;

 private:
  std::size_t used_ = 0;
  std::array<char,
             kMarks * kMarkBytes +
                 kMaxRules * (8 + policy::kMaxSources * (1 + policy::KeyWriter::kMaxPlainValue))>
      keys_;
};

// The counters of a request's marks, and what their keys point to.
class RequestMarks {
 public:
  RequestMarks(const RequestName& name, std::uint32_t generation, const CounterHasher& hasher,
               const ValueDigester& digester);
  RequestMarks(const RequestMarks&) = delete;
  RequestMarks& operator=(const RequestMarks&) = delete;

  std::span<const store::Counter> counters() const noexcept { return counters_; }

 private:
  std::array<std::array<char, Plan::kMarkBytes>, Plan::kMarks> keys_;
  std::array<store::Counter, Plan::kMarks> counters_;
};

}  // namespace weir::guard
