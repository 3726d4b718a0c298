#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "limit/sliding_log.h"
#include "limit/step.h"
#include "testing/model_counter.h"

namespace weir::testing {

// One thing that happens to a counter: time passes, then it is asked.
struct Act {
  enum class Kind : std::uint8_t { take, drain, refund, change };

  std::int64_t advance_ns = 0;  // negative: time goes back
  Kind kind = Kind::take;
  std::uint64_t units = 0;    // the cost; change: the new limit, and with it the burst
  std::uint32_t receipt = 0;  // refund: of the charge so many charges ago
};
std::ostream& operator<<(std::ostream& out, const Act& act);

// A counter of the real steps and the model of it, going through the same acts.
class SideBySide {
 public:
  SideBySide(const limit::Numbers& numbers, Instant start) : SideBySide(numbers, numbers, start) {}
  // For canaries: the two are given different numbers.
  SideBySide(const limit::Numbers& real, const limit::Numbers& model, Instant start)
      : numbers_(real), now_(start), model_(model) {}

  // What the two say differently, if they do.
  [[nodiscard]] std::optional<std::string> act(const Act& act);

 private:
  bool log() const { return numbers_.algorithm == Algorithm::sliding_log; }
  limit::Step real_step(const Act& act, Instant receipt);
  limit::Step model_step(const Act& act, Instant receipt);
  void change(std::uint64_t limit);

  limit::Numbers numbers_;
  Instant now_;
  limit::State state_;
  limit::LogState log_;
  ModelCounter model_;
  std::vector<Instant> receipts_;
};

// The first difference on the way through `acts`, with the acts up to it.
std::optional<std::string> first_difference(SideBySide both, const std::vector<Act>& acts);

}  // namespace weir::testing
