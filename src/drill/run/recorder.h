#pragma once

#include <functional>
#include <optional>
#include <vector>

#include <vector>

#include "drill/run/bound_check.h"
#include "drill/run/call_plan.h"
#include "drill/run/drill.h"
#include "drill/run/stage.h"

namespace weir::drill {

// Drives the load of a plan while the stage is acted on as the scenario says, and writes down how
// every call went.
class Recorder {
 public:
  // What is asked: Weir, whose answers say who decided, or something of somebody's.
  enum class Asked : std::uint8_t { weir, stranger };

  // Whether the faults leave alone where a client's calls to a route are counted.
  using Spared = std::function<bool(std::size_t route, std::uint32_t client)>;

  // Requires:    `report` has its scenario and its routes.
  Recorder(DrillReport& report, CallPlan& plan, Asked asked, Spared spared = {});

  // Errors:      those of the stage and of the load.
  Result<void> run(Stage& stage, const HttpLoad::Options& load, const OnPhase& on_phase);

  // Those that were allowed, of each route.
  const std::vector<std::vector<Admission>>& admissions() const noexcept { return admissions_; }

  // When it began, by the machine's clock.
  Instant began() const noexcept { return wall(begin_); }

  // What clients that keep to the limits saw, one by one.
  struct Sample {
    Nanos due{0};  // since the beginning
    Nanos waited{0};
    bool allowed = false;
  };
  const std::vector<Sample>& samples() const noexcept { return samples_; }

  // Of those that are spared, what was answered while there were faults.
  struct SparedAnswers {
    std::uint64_t all = 0;
    std::uint64_t degraded = 0;
  };
  const SparedAnswers& spared_answers() const noexcept { return spared_answers_; }

  // When the first fault was there, by the machine's clock; absent where there was none.
  std::optional<Instant> struck() const;
  // From then until an answer was given without the store.
  std::optional<Nanos> first_degraded() const;

 private:
  void take(const HttpOutcome& outcome);
  std::size_t phase_at(Nanos passed) const;
  Instant wall(MonoTime at) const { return Instant{at.time_since_epoch() + wall_offset_}; }

  DrillReport& report_;
  CallPlan& plan_;
  const Asked asked_;
  std::vector<std::vector<Admission>> admissions_;
  const Spared spared_;
  std::vector<Sample> samples_;
  SparedAnswers spared_answers_;
  std::vector<MonoTime> degraded_;  // when each was answered
  std::optional<MonoTime> struck_;  // the caller's thread does not look at it
  MonoTime begin_{};
  Nanos wall_offset_{0};
};

// When the last fault of the scenario ended; absent where there was none, or where it did not end.
std::optional<Nanos> calm_from(const Scenario& scenario);

}  // namespace weir::drill
