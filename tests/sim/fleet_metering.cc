#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <limits>

#include "ledger/journal.h"
#include "ledger/journal_reader.h"
#include "ledger/sqlite.h"
#include "limit/parts.h"
#include "sim/fleet_run.h"

namespace weir::sim {

using namespace std::chrono_literals;
using testing::ForgetfulDisk;

namespace {

// A process that is to die at an operation or an answer that does not come dies after so long.
constexpr Nanos kPatience = 1s;
// Whoever is not heard asks again, so often.
constexpr Nanos kTryEvery = 300ms;
constexpr int kTries = 40;
constexpr auto kForGood = std::numeric_limits<std::uint64_t>::max();

}  // namespace

// ---- Metering.

void Fleet::open_places() {
  std::string pattern = std::filesystem::temp_directory_path() / "weir-sim-XXXXXX";
  if (::mkdtemp(pattern.data()) == nullptr) std::abort();
  folder_ = pattern;
  ledger_ = std::make_unique<SimLedger>(canary_);
  for (std::uint32_t i = 0; i < kWorkers; ++i) {
    auto place = std::make_unique<UsagePlace>();
    place->folder = folder_ + "/" + std::to_string(i);
    place->journal = i + 1;
    place->takes = scenario_.disks[i];
    place->within = scenario_.within;
    seats_[i].place = std::move(place);
  }
}

Fleet::~Fleet() {
  for (Seat& seat : seats_) seat.worker.reset();
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

void Fleet::meter(std::uint32_t index) {
  Seat& seat = seats_[index];
  if (canary_ == Canary::disk_lies)
    seat.place->disk.fail(ForgetfulDisk::Fault::lying_sync, 1, ForgetfulDisk::Lasts::until_healed);
  history_.lives[seat.incarnation].worker = index;
  if (canary_ == Canary::names_forgotten) forget_notes(*seat.place, 'k');
  if (canary_ == Canary::ends_forgotten) forget_notes(*seat.place, 'r');
  seat.worker->meter(std::make_unique<SimUsage>(*seat.place, *ledger_, loop_, *seat.process,
                                                [this, index] { die(index, true); }),
                     seat.incarnation, canary_ != Canary::cap_renewed);
}

void Fleet::die(std::uint32_t index, bool power) {
  Seat& seat = seats_[index];
  if (!seat.worker || seat.dying) return;
  seat.dying = true;
  seat.power_cut = power;
  seat.answers_left.reset();
  seat.place->disk.cut_power_at(seat.place->disk.operations());
  seat.worker->usage()->stop();
  // Not from within what it is doing.
  loop_.after(0ns, [this, index, incarnation = seat.incarnation] {
    if (seats_[index].incarnation == incarnation) end_worker(index, true);
  });
}

void Fleet::note_end(std::uint32_t index, bool crash) {
  Seat& seat = seats_[index];
  if (crash && !seat.dying) seat.place->disk.cut_power_at(seat.place->disk.operations());
  seat.worker->usage()->stop();
  Life& life = history_.lives[seat.incarnation];
  life.ended = loop_.mono();
  life.crashed = crash;
  // What is stopped notices nothing.
  life.unwell = seat.stopped_at.value_or(loop_.mono()) < seat.unwell_until;
  life.waiting = seat.worker->usage()->journal().status().waiting;
}

// In order; but the power may go while it writes what is left.
void Fleet::close_usage(Seat& seat) {
  Life& life = history_.lives[seat.incarnation];
  life.waiting = seat.worker->usage()->journal().close();
  if (!seat.place->disk.power_is_cut()) return;
  life.crashed = seat.power_cut = true;
}

// What is left of a process that is gone: a disk, as its end left it.
void Fleet::clear_away(Seat& seat) {
  if (seat.power_cut) {
    seat.place->disk.restart(ForgetfulDisk::Unsynced::drawn, seat.incarnation);
  } else {
    seat.place->disk.go_on();
  }
  seat.dying = seat.power_cut = false;
  seat.answers_left.reset();
}

bool Fleet::killed_before_telling(std::uint32_t index, const Record& record,
                                  const Decision& decision) {
  Seat& seat = seats_[index];
  if (!seat.answers_left || seat.dying || seat.incarnation != record.incarnation) return false;
  // A reservation is, whoever admitted it.
  const bool durable = is_metered(record.question.route) && decision.allowed() &&
                       (decision.rung != Rung::store || record.question.stay) &&
                       record.question.cost > 0;
  if (!durable || --*seat.answers_left > 0) return false;
  die(index, false);
  return true;
}

// The canary.
void Fleet::record_refused(std::uint32_t index, const Record& record) {
  Seat& seat = seats_[index];
  const std::size_t place = record.question.route;
  if (!seat.worker || !is_plainly_metered(place) || record.decision->allowed()) return;
  const policy::Route& of = route(record.numbers, place);
  const auto rule = std::find_if(of.rules.begin(), of.rules.end(),
                                 [](const policy::Rule& each) { return each.meter; });
  const ledger::UsageEvent event{.id = {record.incarnation, kForGood - history_.records.size()},
                                 .tenant = kUsers[record.question.user],
                                 .route = of.name,
                                 .rule = rule->name,
                                 .idempotency_key = {},
                                 .units = record.question.cost,
                                 .at = record.decision->decided_at,
                                 .window_start = record.decision->decided_at,
                                 .window = 10s};
  (void)seat.worker->usage()->journal().follow({&event, 1});
}

std::uint64_t Fleet::part_of_cap(const Record& record, Seat& seat, std::size_t rule) {
  const policy::Route& of = route(record.numbers, record.question.route);
  const Target& target = history_.targets[record.question.route][record.question.user][rule];
  const auto division = seat.worker->store().shard(target.shard).driver().ladder().division();
  if (!division->has_part()) return 0;
  const auto cap =
      limit::Numbers::make({.algorithm = Algorithm::fixed_window,
                            .limit = of.overspend->cap,
                            .period = {.length = Nanos(of.rules[rule].numbers.period_ns)},
                            .burst = std::nullopt});
  const auto part =
      limit::part_numbers(*cap, {division->place(target.digest), division->workers()});
  return part ? part->limit : 0;
}

void Fleet::begin_metering(const Fault& fault) {
  Seat& seat = seats_[fault.worker];
  ForgetfulDisk& disk = seat.place->disk;
  switch (fault.kind) {
    case FaultKind::power_cut:
    case FaultKind::kill_unsaid:
      if (!seat.worker || seat.dying) break;
      if (fault.kind == FaultKind::power_cut) {
        disk.cut_power_at(disk.operations() + fault.nth);
      } else {
        seat.answers_left = fault.nth;
      }
      loop_.after(kPatience, [this, &fault, incarnation = seat.incarnation] {
        const Seat& then = seats_[fault.worker];
        if (then.incarnation == incarnation) die(fault.worker, fault.kind == FaultKind::power_cut);
      });
      break;
    case FaultKind::disk_full:
    case FaultKind::disk_fails:
      if (canary_ == Canary::disk_lies) break;
      disk.fail(fault.kind == FaultKind::disk_full ? ForgetfulDisk::Fault::full
                                                   : ForgetfulDisk::Fault::sync,
                1, ForgetfulDisk::Lasts::until_healed);
      seat.unwell_until = MonoTime::max();
      break;
    case FaultKind::ledger_away:
      ledger_->set_away(true);
      break;
    case FaultKind::ledger_cut:
      ledger_->cut_power_at(fault.nth);
      break;
    case FaultKind::ledger_words:
      ledger_->lose_words(fault.nth);
      break;
    default:
      break;
  }
}

void Fleet::mend_metering(const Fault& fault) {
  Seat& seat = seats_[fault.worker];
  switch (fault.kind) {
    case FaultKind::power_cut:
    case FaultKind::kill_unsaid:
      if (!seat.worker) start_worker(fault.worker);
      break;
    case FaultKind::disk_full:
    case FaultKind::disk_fails:
      if (canary_ == Canary::disk_lies) break;
      seat.place->disk.heal();
      seat.unwell_until = loop_.mono() + kHealing;
      break;
    case FaultKind::ledger_away:
      ledger_->set_away(false);
      break;
    default:
      break;
  }
}

void Fleet::settle_all() {
  const auto settled = [this](Seat& seat) {
    const ledger::JournalStatus status = seat.worker->usage()->journal().status();
    return status.writable && status.waiting == 0 && status.counts.unsettled == 0 &&
           seat.worker->usage()->reservations().size() == 0;
  };
  for (int rounds = 0; rounds < 200; ++rounds) {
    if (std::all_of(seats_.begin(), seats_.end(),
                    [&](Seat& seat) { return !seat.worker || settled(seat); }))
      break;
    loop_.run_for(200ms);
  }
  const auto fault = [this](const std::string& what) { history_.not_settled.push_back(what); };
  for (std::uint32_t i = 0; i < kWorkers; ++i) {
    Seat& seat = seats_[i];
    if (!seat.worker) continue;
    const std::string who = "worker " + std::to_string(i) + ": ";
    const ledger::JournalStatus status = seat.worker->usage()->journal().status();
    if (!settled(seat))
      fault(who + std::to_string(status.counts.unsettled) + " events and " +
            std::to_string(seat.worker->usage()->reservations().size()) +
            " reservations are not settled: " + status.why);
    history_.put_aside += status.counts.quarantined;
    auto reader = ledger::JournalReader::open(
        ledger::Journal::file_in(seat.place->folder, seat.place->disk.name()));
    auto sound = reader ? reader->verify() : Result<void>(reader.error());
    if (!sound) fault(who + sound.error().message);
  }
  ledger_->set_away(false);
  ledger_->lose_words(0);
  auto keys = ledger_->keys();
  if (!keys) fault(keys.error().message);
  if (keys) history_.keys = std::move(*keys);
  auto billed = ledger_->entries();
  auto units = ledger_->units();
  if (!billed) fault(billed.error().message);
  if (!units) fault(units.error().message);
  if (billed) history_.billed = std::move(*billed);
  if (units) history_.billed_units = *units;
}

// ---- Reservations.

std::shared_ptr<guard::MeteredCall> Fleet::call_of(const Question& question) const {
  if (!ledger_ || (question.name == 0 && !question.stay)) return nullptr;
  auto call = std::make_shared<guard::MeteredCall>();
  if (question.name != 0) call->idempotency_key = name_of(question.name);
  if (question.stay) call->reserve = scenario_.stays[*question.stay].terms;
  return call;
}

void Fleet::stay(std::size_t record, const std::string& id) {
  Stayed& stayed = history_.stayed.emplace_back();
  stayed.record = record;
  stayed.id = id;
  const Question& question = history_.records[record].question;
  const Stay& plan = scenario_.stays[*question.stay];
  for (const Stay::Beat& each : plan.beats) {
    loop_.after(each.after, [this, &stayed, index = question.worker, so_far = each.so_far] {
      beat(stayed, index, so_far);
    });
  }
  if (!plan.settled_after) return;
  loop_.after(*plan.settled_after, [this, &stayed, index = question.worker, units = plan.uses] {
    try_to_settle(stayed, index, units, kTries);
  });
}

void Fleet::beat(Stayed& stayed, std::uint32_t index, std::uint64_t so_far) {
  Seat& seat = seats_[index];
  if (!seat.worker || seat.dying) return;
  if (seat.process->stopped()) {
    seat.process->hear([this, &stayed, index, so_far] { beat(stayed, index, so_far); });
    return;
  }
  if (!seat.worker->usage()->reservations().heartbeat(stayed.id, so_far)) return;
  stayed.beats.push_back(so_far);
  if (seat.incarnation != history_.records[stayed.record].incarnation)
    stayed.beat_by_another = true;
}

void Fleet::try_to_settle(Stayed& stayed, std::uint32_t index, std::uint64_t units, int tries) {
  using What = Stayed::Try::What;
  Seat& seat = seats_[index];
  const auto again = [this, &stayed, index, units, tries] {
    if (tries == 0) return;
    loop_.after(kTryEvery, [this, &stayed, index, units, tries] {
      try_to_settle(stayed, index, units, tries - 1);
    });
  };
  if (!seat.worker || seat.dying || seat.leaving) return again();
  if (seat.process->stopped()) {
    seat.process->hear(
        [this, &stayed, index, units, tries] { try_to_settle(stayed, index, units, tries); });
    return;
  }
  Stayed::Try& one = stayed.tries.emplace_back();
  one.units = units;
  one.incarnation = seat.incarnation;
  const bool asks_again =
      scenario_.stays[*history_.records[stayed.record].question.stay].asks_again;
  if (canary_ == Canary::settled_unsaid) {
    one.what = What::yes;
    return;
  }
  seat.worker->usage()->reservations().settle(
      stayed.id, units, [&one, &seat, again, asks_again](const Result<Settlement>& settled) {
        if (one.what != What::asked || (seat.dying && seat.incarnation == one.incarnation)) return;
        if (settled) {
          one.what = What::yes;
          one.repeated = settled->repeated;
          if (asks_again && !settled->repeated) again();
          return;
        }
        const ErrorCode code = settled.error().code;
        one.what = code == ErrorCode::unavailable           ? What::no
                   : code == ErrorCode::failed_precondition ? What::other
                                                            : What::unknown;
        if (one.what == What::no) again();
      });
  if (!asks_again) return;
  // It hears nothing, and asks whoever is there then.
  loop_.after(kPatience, [&one, again] {
    if (one.what == What::void_) again();
  });
}

void Fleet::void_tries(std::uint64_t incarnation) {
  using What = Stayed::Try::What;
  for (Stayed& stayed : history_.stayed) {
    for (Stayed::Try& one : stayed.tries) {
      if (one.incarnation == incarnation && one.what == What::asked) one.what = What::void_;
    }
  }
}

void Fleet::forget_notes(UsagePlace& place, char whose) {
  auto db = ledger::Database::open(
      {.path = ledger::Journal::file_in(place.folder).path, .vfs = place.disk.name()});
  if (!db) return;
  const std::string from = whose == 'k' ? "x'6b' AND id < x'6c'" : "x'72' AND id < x'73'";
  (void)db->run(("DELETE FROM notes WHERE id >= " + from).c_str());
}

}  // namespace weir::sim
