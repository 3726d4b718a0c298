#include <algorithm>
#include <chrono>
#include <utility>

#include "ladder/bound.h"
#include "limit/parts.h"
#include "sim/fleet_run.h"

namespace weir::sim {

using namespace std::chrono_literals;
using testing::SimLink;
using testing::SimRedis;

Fleet::Fleet(const Scenario& scenario, Canary canary)
    : scenario_(scenario),
      canary_(canary),
      servers_(
          scenario, canary, loop_,
          {.beat =
               [this](std::size_t shard, std::string_view name, char what, const auto& reply,
                      bool replaced) {
                 rosters_[shard].beat(name, what, reply, holders(shard), replaced);
               },
           .late_write = [this](const std::string& key) { history_.late_writes.push_back(key); }}),
      rosters_(scenario.shards, Roster(loop_)) {
  history_.scenario = scenario;
  const policy::StoreSpec& spec = this->spec();
  const Nanos ramp = spec.recovery.step * static_cast<int>(spec.recovery.steps);
  const auto jitter = static_cast<int>(spec.breaker.jitter * 100 + 0.5);
  back_within_ = spec.breaker.max_cooldown * (100 + jitter) / 100 + ramp +
                 2 * (spec.connect_timeout + spec.deadline);
  if (scenario.meters) open_places();
  for (std::uint32_t i = 0; i < kWorkers; ++i) {
    if (scenario.members) {
      seats_[i].folders.assign(scenario.shards, {.view = {}, .takes = scenario.tenures[i].disk});
    }
    if (!joins_later(i)) start_worker(i);
  }
  find_targets();
}

History Fleet::run() {
  loop_.run_for(scenario_.warm_up);
  history_.began = loop_.mono();
  history_.began_at = loop_.now();
  Nanos length = scenario_.length;
  for (const Fault& fault : scenario_.faults) {
    schedule(fault);
    length = std::max(length, fault.start + fault.length);
  }
  for (std::uint32_t i = 0; i < kWorkers; ++i) {
    if (joins_later(i)) join_later(i);
  }
  for (const Question& question : scenario_.questions) {
    loop_.at(history_.began + question.at, [this, &question] { ask(question, false); });
  }
  looked_until_ = history_.began + length;
  if (scenario_.members) look_again();
  loop_.run_for(length);
  // A server that was slow has still to do what it was given meanwhile.
  if (servers_.busy_until() > loop_.mono()) loop_.run_until(servers_.busy_until());
  loop_.run_for(back_within_);
  if (scenario_.members) everybody_has_a_part();
  ask_for_the_last_time();
  if (ledger_) settle_all();
  finish();
  return std::move(history_);
}

const policy::StoreSpec& Fleet::spec() const {
  return policy(scenario_.temperament, 0).model().store;
}

// ---- Workers
// ---------------------------------------------------------------------------------------

bool Fleet::joins_later(std::uint32_t index) const {
  return scenario_.members && scenario_.tenures[index].joins_at.has_value();
}

void Fleet::join_later(std::uint32_t index) {
  const Nanos at = *scenario_.tenures[index].joins_at;
  loop_.at(history_.began + at, [this, index] {
    if (!seats_[index].worker) start_worker(index);
  });
  expose(index, at, 0ns);
}

StoreSetup Fleet::setup(std::uint32_t index) {
  Seat& seat = seats_[index];
  StoreSetup setup{.spec = spec(), .shards = {}, .fallback = {}, .seat = {}, .division = {}};
  for (std::size_t i = 0; i < servers_.shards(); ++i) {
    setup.shards.push_back(servers_.way(index, i));
  }
  if (scenario_.fallback) setup.fallback = servers_.fallback_way(index);
  setup.turn = scenario_.turn;
  setup.seed = scenario_.seed * 1'000 + seat.incarnation;
  setup.echoes = canary_ == Canary::echoes;
  if (!scenario_.members) {
    const bool whole = canary_ == Canary::whole_limits;
    setup.division = ladder::Division::fixed(whole ? 1 : kWorkers, whole ? 0 : index);
    return setup;
  }
  const bool lasts = scenario_.tenures[index].lasts;
  seat.name = "w" + std::to_string(index);
  if (!lasts) seat.name += "." + std::to_string(seat.incarnation);
  setup.seat = {.role = FleetRole::worker,
                .name = seat.name,
                .name_lasts = lasts,
                .writes = lasts,
                .process = setup.seed,
                .of = {},
                .index = {}};
  if (lasts) setup.folders = &seat.folders;
  return setup;
}

void Fleet::start_worker(std::uint32_t index) {
  Seat& seat = seats_[index];
  seat.incarnation = ++incarnations_;
  seat.leaving = false;
  seat.stopped_at.reset();
  seat.numbers = seat.on_disk;
  seat.process = std::make_unique<testing::SimProcess>(loop_);
  seat.worker = std::make_unique<Worker>(policy(scenario_.temperament, seat.numbers), setup(index),
                                         loop_, *seat.process, scenario_.walls[index]);
  if (ledger_) meter(index);
}

void Fleet::count(Seat& seat) {
  seat.unknown += seat.worker->unknown();
  seat.over_bound += seat.worker->over_bound();
}

void Fleet::end_worker(std::uint32_t index, bool crash) {
  Seat& seat = seats_[index];
  if (!seat.worker) return;
  crash = crash || seat.dying;
  if (crash) {
    for (Record& record : history_.records) {
      if (record.incarnation == seat.incarnation && record.answers == 0) record.void_ = true;
    }
    void_tries(seat.incarnation);
    // Whatever it had asked may have been counted, or not.
    ++seat.unknown;
  }
  if (ledger_) note_end(index, crash);
  note_pause(seat, true);
  seat.worker->store().stop();
  count(seat);
  if (ledger_ && !crash) close_usage(seat);
  seat.worker.reset();
  if (ledger_) clear_away(seat);
}

void Fleet::restart(std::uint32_t index) {
  Seat& seat = seats_[index];
  if (!seat.worker) return;
  seat.process->hear([this, index] {
    end_worker(index, false);
    start_worker(index);
  });
}

void Fleet::pause(std::uint32_t index) {
  Seat& seat = seats_[index];
  if (!seat.worker || seat.stopped_at) return;
  seat.stopped_at = loop_.mono();
  seat.process->stop(canary_ == Canary::deaf_while_stopped);
}

void Fleet::go_on(const Fault& fault) {
  Seat& seat = seats_[fault.worker];
  if (!seat.worker || !seat.stopped_at) return;
  // Whether its disk is well again it notices now.
  if (*seat.stopped_at < seat.unwell_until && seat.unwell_until != MonoTime::max())
    seat.unwell_until = std::max(seat.unwell_until, loop_.mono() + kHealing);
  note_pause(seat, false);
  seat.process->go_on(fault.first);
}

void Fleet::note_pause(Seat& seat, bool killed) {
  if (!seat.stopped_at) return;
  history_.pauses.push_back({.incarnation = seat.incarnation,
                             .from = *seat.stopped_at,
                             .until = loop_.mono(),
                             .killed = killed});
  seat.stopped_at.reset();
}

void Fleet::leave(const Fault& fault) {
  Seat& seat = seats_[fault.worker];
  if (!seat.worker) return;
  if (seat.process->stopped()) {
    seat.process->hear([this, &fault] { leave(fault); });
    return;
  }
  seat.leaving = true;
  seat.worker->store().leave([this, &fault, incarnation = seat.incarnation] {
    if (seats_[fault.worker].incarnation != incarnation) return;
    end_worker(fault.worker, false);
    // It took longer than until another was to come.
    if (loop_.mono() >= history_.began + fault.start + fault.length) start_worker(fault.worker);
  });
}

std::vector<Holder> Fleet::holders(std::size_t shard) {
  std::vector<Holder> holders;
  for (Seat& seat : seats_) {
    if (!seat.worker) continue;
    const guard::ShardDriver& driver = seat.worker->store().shard(shard).driver();
    holders.push_back({seat.name, driver.fleet_view(), *driver.ladder().division()});
  }
  return holders;
}

// ---- Questions.

void Fleet::find_targets() {
  for (Seat& seat : seats_) {
    if (!seat.worker) continue;
    for (std::size_t place = 0; place < routes(); ++place) {
      auto& of = history_.targets.emplace_back();
      for (std::size_t user = 0; user < kUsers.size(); ++user) {
        of[user] = seat.worker->targets(route(0, place).name, kUsers[user]);
      }
    }
    return;
  }
}

void Fleet::ask(const Question& question, bool last) {
  Seat& seat = seats_[question.worker];
  if (!seat.worker || seat.leaving || seat.dying) return;
  if (seat.process->stopped()) {
    seat.process->hear([this, question] { ask(question, false); });
    return;
  }
  Record& record = history_.records.emplace_back();
  record.question = question;
  record.last = last;
  record.incarnation = seat.incarnation;
  record.numbers = seat.numbers;
  record.asked_at = loop_.mono();
  // What it is served from may be another's by the time the disk has it, as where its worker
  // leaves.
  if (is_metered(question.route)) note_what_it_has(record, seat);
  const auto call = call_of(question);
  seat.worker->check(route(0, question.route).name, kUsers[question.user],
                     {.cost = question.cost, .deadline = question.patience}, call,
                     [this, &record, &seat, call, place = history_.records.size() - 1,
                      &question = record.question](Decision decision) {
                       if (seat.dying && seat.incarnation == record.incarnation)
                         record.void_ = true;
                       if (record.void_ || killed_before_telling(question.worker, record, decision))
                         return;
                       ++record.answers;
                       record.decision = std::move(decision);
                       record.decided_at = loop_.mono();
                       note_part(record, seat);
                       if (question.stay && record.decision->allowed() && seat.worker)
                         stay(place, call->reservation);
                       if (canary_ == Canary::bills_refused)
                         record_refused(question.worker, record);
                       if (scenario_.members && record.decision->rung == Rung::share) {
                         look_at_parts(look(), question.route, question.user);
                       }
                     });
}

void Fleet::note_part(Record& record, Seat& seat) {
  if (record.decision->rung == Rung::store || !seat.worker) return;
  const auto& targets = history_.targets[record.question.route][record.question.user];
  for (std::size_t rule = 0; rule < targets.size(); ++rule) {
    const Target& target = targets[rule];
    const auto division = seat.worker->store().shard(target.shard).driver().ladder().division();
    record.divided_by = division->workers();
    const limit::Place place{division->place(target.digest), division->workers()};
    const auto part =
        division->has_part()
            ? limit::part_numbers(route(record.numbers, record.question.route).rules[rule].numbers,
                                  place)
            : std::nullopt;
    if (!part || record.question.cost > part->burst) record.no_part = true;
  }
  note_what_it_has(record, seat);
}

void Fleet::note_what_it_has(Record& record, Seat& seat) {
  const auto& targets = history_.targets[record.question.route][record.question.user];
  for (std::size_t rule = 0; rule < targets.size(); ++rule) {
    const Target& target = targets[rule];
    const auto division = seat.worker->store().shard(target.shard).driver().ladder().division();
    if (!division->has_part()) continue;
    const limit::Place place{division->place(target.digest), division->workers()};
    const auto part_under = [&](std::size_t numbers) {
      return limit::part_numbers(route(numbers, record.question.route).rules[rule].numbers, place);
    };
    if (!part_under(record.numbers)) continue;
    if (route(0, record.question.route).rules[rule].meter)
      record.part_of_cap = std::max(record.part_of_cap, part_of_cap(record, seat, rule));
    // Under the more generous numbers of a reload: what was spent under others is converted.
    for (const std::size_t numbers : {std::size_t{0}, record.numbers}) {
      if (const auto under = part_under(numbers)) {
        record.part[rule] = std::max(record.part[rule], ladder::most_in_window(*under));
      }
    }
  }
}

void Fleet::ask_for_the_last_time() {
  std::array<std::array<bool, 2>, 32> asked{};
  for (const Record& record : history_.records) {
    asked[record.question.route][record.question.user] = true;
  }
  for (int round = 0; round < 2; ++round) {
    for (std::size_t route = 0; route < routes(); ++route) {
      for (std::uint32_t user = 0; user < kUsers.size(); ++user) {
        if (!asked[route][user]) continue;
        for (std::uint32_t worker = 0; worker < kWorkers; ++worker) {
          if (!seats_[worker].worker) continue;
          ask({.worker = worker, .route = route, .user = user, .cost = 0}, true);
          if (round > 0) break;
        }
        loop_.run_for(50ms);
      }
    }
    loop_.run_for(2s);  // beyond the age of a known denial
  }
}

// ---- The end.

void Fleet::finish() {
  for (Seat& seat : seats_) {
    if (seat.worker) {
      SimStore& store = seat.worker->store();
      for (std::size_t i = 0; i < store.shards(); ++i) look_at_breaker(store.shard(i));
      if (store.fallback() != nullptr) look_at_breaker(*store.fallback());
      count(seat);
    }
    history_.there.push_back(seat.worker != nullptr);
    history_.unknown.push_back(seat.unknown);
    history_.over_bound += seat.over_bound;
    history_.numbers = std::max(history_.numbers, seat.numbers);
  }
  for (SimRedis* server : servers_.all()) {
    for (const auto& [key, value] : server->keys()) {
      if (!value.expires_at) history_.keys_without_expiry.push_back(key);
    }
  }
  history_.events = loop_.events();
}

Nanos History::stopped(std::uint64_t incarnation, MonoTime from, MonoTime until) const {
  Nanos sum{0};
  for (const Pause& pause : pauses) {
    if (pause.incarnation != incarnation) continue;
    sum += std::max(Nanos{0}, std::min(until, pause.until) - std::max(from, pause.from));
  }
  return sum;
}

void Fleet::look_at_breaker(const SimShard& shard) {
  const auto state = shard.driver().ladder().breaker().state();
  if (state != breaker::ProbeState::closed) {
    history_.not_closed.emplace_back(breaker::to_string(state));
  }
}

History run(const Scenario& scenario, Canary canary) {
  return Fleet(scenario, canary).run();
}

}  // namespace weir::sim
