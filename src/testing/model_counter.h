#pragma once

#include <cstdint>
#include <vector>

#include "base/wide.h"
#include "limit/numbers.h"
#include "limit/step.h"
#include "weir/clock.h"

namespace weir::testing {

// One counter, obviously right: it remembers every charge, adds them up again for each question,
// and finds waits and remainders by trying. It shares no arithmetic with the code it judges: gcra
// is a bucket that drips, windows are found by walking the calendar, and nothing is divided.
//
// Cost:        O(charges) a question, some hundred questions an answer. For tests.
class ModelCounter {
 public:
  explicit ModelCounter(const limit::Numbers& numbers) : numbers_(numbers) {}

  // What limit/step.h promises of each; Step::next is not filled in but for its receipt.
  limit::Step take(Instant now, std::uint64_t cost);
  limit::Step drain(Instant now, std::uint64_t cost);
  limit::Step refund(Instant now, std::uint64_t cost, Instant receipt);
  void convert(const limit::Numbers& to, Instant now);

  // Whether nothing is used at `now`.
  bool fresh(Instant now) const;
  const limit::Numbers& numbers() const { return numbers_; }
  // Units ever charged; refunds do not lower it.
  std::uint64_t charged() const { return charged_; }

  friend bool operator==(const ModelCounter&, const ModelCounter&) = default;

 private:
  struct Charge {
    std::int64_t time_ns = 0;
    std::uint64_t units = 0;
    friend bool operator==(const Charge&, const Charge&) = default;
  };
  // A change of the bucket's content; negative where units were given back.
  struct Drop {
    std::int64_t time_ns = 0;
    SignedWide content = 0;
    friend bool operator==(const Drop&, const Drop&) = default;
  };

  // Nanoseconds within what the arithmetic reaches; and the instant at which the counter believes
  // to be, where it was already later.
  static std::int64_t reached(Instant now);
  std::int64_t believed(std::int64_t now_ns) const;

  SignedWide content_at(std::int64_t now_ns) const;
  std::uint64_t units_in(std::int64_t start_ns, std::int64_t end_ns) const;
  bool uses_nothing(std::int64_t now_ns) const;
  bool fits(std::int64_t now_ns, std::uint64_t units) const;
  std::uint64_t most_that_fits(std::int64_t now_ns) const;
  std::int64_t wait_until_fits(std::int64_t now_ns, std::uint64_t units) const;
  std::int64_t wait_until_fresh(std::int64_t now_ns) const;

  bool clock_was_set_back(std::int64_t now_ns) const;
  void follow_clock(std::int64_t now_ns);
  std::int64_t charge(std::int64_t now_ns, std::uint64_t units);
  bool drop_back(std::int64_t now_ns, std::uint64_t cost, std::int64_t receipt_ns);
  bool uncharge(std::int64_t now_ns, std::uint64_t cost, std::int64_t receipt_ns);
  limit::Step report(std::int64_t now_ns, limit::Outcome outcome, std::uint64_t ask) const;

  limit::Numbers numbers_;
  std::vector<Charge> charges_;  // windows and logs
  std::vector<Drop> drops_;      // gcra
  std::int64_t written_ns_ = 0;  // when the counter was last changed
  std::uint64_t charged_ = 0;
};

// The window of `numbers` around `now_ns`, by walking there from 1970.
limit::Window model_window(const limit::Numbers& numbers, std::int64_t now_ns);

}  // namespace weir::testing
