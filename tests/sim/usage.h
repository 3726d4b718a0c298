#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "guard/usage_recorder.h"
#include "policy/model.h"
#include "sim/sim_ledger.h"
#include "testing/forgetful_disk.h"
#include "testing/sim/sim_loop.h"
#include "testing/sim/sim_process.h"

namespace weir::sim {

// Where the usage of one worker lies, through all its processes: a disk that forgets what was not
// synced, and a folder of the machine's own for the lock.
struct UsagePlace {
  testing::ForgetfulDisk disk;
  std::string folder;
  std::uint64_t journal = 0;  // its name
  Nanos takes{0};             // a commit
  Nanos within{0};            // as the policy's journal
};

// The journal and the settlement of one process in simulated time: both are turned when they would
// have worked by themselves, and stand where the process is stopped.
class SimUsage {
 public:
  // All outlive this, and whoever gets the recorder ends before it. `died` hears when the power of
  // the disk went in the middle of something.
  SimUsage(UsagePlace& place, SimLedger& ledger, testing::SimLoop& loop,
           testing::SimProcess& process, std::function<void()> died)
      : place_(place), ledger_(ledger), loop_(loop), process_(process), died_(std::move(died)) {}
  SimUsage(const SimUsage&) = delete;
  SimUsage& operator=(const SimUsage&) = delete;

  // Once.
  std::unique_ptr<guard::UsageRecorder> open(std::uint64_t process, Clock& clock,
                                             render::Metrics& metrics);

  ledger::Journal& journal() { return recorder_->journal(); }
  guard::ReservationBook& reservations() { return recorder_->reservations(); }
  // Nothing is turned any more: the process is gone, or about to go.
  void stop() noexcept { alive_.reset(); }

 private:
  void turn_journal_at(MonoTime when);
  void turn_journal();
  void turn_settler_after(Nanos rest);
  void turn_reservations_after(Nanos rest);

  UsagePlace& place_;
  SimLedger& ledger_;
  testing::SimLoop& loop_;
  testing::SimProcess& process_;
  const std::function<void()> died_;
  guard::UsageRecorder* recorder_ = nullptr;
  std::optional<MonoTime> due_;  // the journal's next turn
  std::uint64_t turn_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace weir::sim
