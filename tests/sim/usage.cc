#include "sim/usage.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "ledger/journal.h"
#include "ledger/settler.h"

namespace weir::sim {

namespace {

// Small, so that the log is carried into the database within a run.
constexpr int kLogPages = 24;

}  // namespace

std::unique_ptr<guard::UsageRecorder> SimUsage::open(std::uint64_t process, Clock& clock,
                                                     render::Metrics& metrics) {
  policy::JournalSpec spec;
  spec.folder = place_.folder;
  spec.within = place_.within;
  auto opened = guard::UsageRecorder::open_on(
      {.vfs = place_.disk.name(),
       .log_pages = kLogPages,
       .wake = [this] { turn_journal_at(loop_.mono() + place_.takes); },
       .wake_waits =
           [this](MonoTime when) {
             process_.at(when, [this, alive = std::weak_ptr(alive_)] {
               if (!alive.expired()) recorder_->waits().turn(loop_.mono());
             });
           },
       .open_ledger = [this] { return ledger_.open(); },
       .journal = place_.journal,
       .process = process},
      spec, clock, metrics);
  if (!opened) {
    std::fprintf(stderr, "%s\n", opened.error().message.c_str());
    std::abort();
  }
  recorder_ = opened->get();
  turn_journal_at(loop_.mono() + place_.takes);
  turn_settler_after(place_.takes);
  turn_reservations_after(place_.takes);
  return std::move(*opened);
}

void SimUsage::turn_journal_at(MonoTime when) {
  if (!alive_ || (due_ && *due_ <= when)) return;
  due_ = when;
  process_.at(when, [this, number = ++turn_, alive = std::weak_ptr(alive_)] {
    if (!alive.expired() && number == turn_) turn_journal();
  });
}

void SimUsage::turn_journal() {
  due_.reset();
  const auto rest = journal().turn();
  if (place_.disk.power_is_cut()) {
    died_();
    return;
  }
  if (rest) turn_journal_at(loop_.mono() + std::max(*rest, place_.takes));
}

void SimUsage::turn_reservations_after(Nanos rest) {
  process_.after(rest, [this, alive = std::weak_ptr(alive_)] {
    if (!alive.expired()) turn_reservations_after(reservations().turn());
  });
}

void SimUsage::turn_settler_after(Nanos rest) {
  process_.after(std::max(rest, place_.takes), [this, alive = std::weak_ptr(alive_)] {
    if (alive.expired()) return;
    const Nanos next = recorder_->settler().turn();
    // It opens files to read them, which a disk counts, too.
    if (place_.disk.power_is_cut()) {
      died_();
      return;
    }
    turn_settler_after(next);
  });
}

}  // namespace weir::sim
