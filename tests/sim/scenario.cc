#include "sim/scenario.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "sim/policies.h"
#include "testing/sim/sim_random.h"

namespace weir::sim {

using namespace std::chrono_literals;
using testing::SimRandom;

namespace {

constexpr int kQuestions = 320;
constexpr int kMeteredQuestions = 120;
constexpr int kNamedRequests = 14;
constexpr int kStays = 14;
constexpr auto kDrawnForAll = static_cast<std::size_t>(kFirstOfMetering);
constexpr Nanos kLength = 14s;
// Of a fleet that reads in the store who is there: beats, leases and joining take their time.
constexpr Nanos kMostLength = 55s;

constexpr std::array<std::string_view, kFaultKinds> kNames{
    "outage",       "hang",           "slow",          "delay",         "cut",         "cut_up",
    "cut_down",     "lose_replies",   "flush",         "restart_empty", "restart_old", "clock_step",
    "scripts_gone", "restart_worker", "crash_worker",  "reload",        "promote",     "silence",
    "leave",        "members_gone",   "fallback_away", "power_cut",     "kill_unsaid", "disk_full",
    "disk_fails",   "ledger_away",    "ledger_cut",    "ledger_words",  "pause",       "split"};

bool fits(FaultKind kind, const Scenario& scenario) {
  switch (kind) {
    case FaultKind::silence:
    case FaultKind::leave:
    case FaultKind::members_gone:
      return scenario.members;
    case FaultKind::fallback_away:
      return scenario.fallback;
    default:
      return kind < kFirstOfMetering;
  }
}

// Of those, one a run: what several make of a counter has no bound of its own.
bool comes_once(FaultKind kind) {
  return kind == FaultKind::reload || kind == FaultKind::promote;
}

Fault draw_fault(FaultKind kind, const Scenario& scenario, SimRandom& random) {
  Fault fault{.kind = kind};
  fault.start = random.between(1s, scenario.length - 5s);
  fault.length = random.percent(30) ? random.between(5ms, 100ms) : random.between(100ms, 4s);
  fault.worker = static_cast<std::uint32_t>(random.below(kWorkers));
  fault.shard = random.below(scenario.shards);
  fault.numbers = 1 + random.below(kNumberSets - 1);
  switch (kind) {
    case FaultKind::delay:
      fault.amount = random.between(4ms, 25ms);
      break;
    case FaultKind::slow:
      fault.amount = random.between(500us, 30ms);
      break;
    case FaultKind::lose_replies:
      fault.length = random.between(1ms, 300ms);
      break;
    case FaultKind::clock_step: {
      const Nanos by = random.percent(50) ? random.between(2ms, 900ms) : random.between(1s, 40s);
      fault.amount = random.percent(50) ? by : -by;
      break;
    }
    case FaultKind::promote:
      fault.length = random.between(50ms, 4s);
      fault.amount = random.percent(30) ? 0ns : random.between(1ms, 800ms);
      fault.start = std::max(fault.start, fault.amount);
      if (random.percent(30)) fault.ahead = random.between(-1s, 1s);
      break;
    case FaultKind::silence:
      fault.length = random.between(16s, 35s);
      break;
    case FaultKind::leave:
      fault.length = random.between(10ms, 8s);
      break;
    default:
      break;
  }
  return fault;
}

Question draw_question(SimRandom& random, const std::vector<std::size_t>& routes) {
  Question question;
  question.worker = static_cast<std::uint32_t>(random.below(kWorkers));
  question.route = routes[random.below(routes.size())];
  question.user = static_cast<std::uint32_t>(random.below(2));
  if (random.percent(15)) question.cost = 2 + random.below(4);
  if (random.percent(3)) question.cost = 0;
  if (random.percent(10)) question.patience = random.between(1ms, 40ms);
  return question;
}

// Half of them come in bursts, many of which are of one worker about one counter, and begin where
// something goes wrong or right again.
void draw_questions(SimRandom& random, Scenario& scenario) {
  // The first is the one whose count in the end says most.
  std::vector<std::size_t> routes{0};
  for (std::size_t i = 0; i < 4; ++i) routes.push_back(random.below(flood_route()));
  Question burst = draw_question(random, routes);
  Nanos spread = 30ms;
  Nanos pace = 0ns;
  // At one instant, in which the store's thread finds them together.
  bool at_once = false;
  bool alike = false;
  for (int i = 0; i < kQuestions; ++i) {
    Question question = draw_question(random, routes);
    if (random.percent(10)) {
      const Fault& near = scenario.faults[random.below(scenario.faults.size())];
      burst = question;
      burst.at = near.start + (random.percent(50) ? near.length : 0ns);
      spread = random.between(1ms, 80ms);
      pace = random.percent(50) ? random.between(3ms, 15ms) : 0ns;
      alike = random.percent(60);
      at_once = random.percent(30);
      burst.cost = random.percent(80) ? 1 : burst.cost;
      if (alike && random.percent(30)) burst.route = routes.front();
      // Whoever is cut off has most to get wrong.
      if (is_of_one_worker(near.kind)) burst.worker = near.worker;
    }
    if (random.percent(50)) {
      if (alike) {
        question.worker = burst.worker;
        question.route = burst.route;
        question.user = burst.user;
        if (at_once) question.cost = burst.cost;
        if (at_once) question.patience = burst.patience;
      }
      // All at one time, one after the other, or all at some time.
      if (pace > 0ns && !at_once) burst.at += pace;
      question.at = burst.at + (pace > 0ns || at_once ? 0ns : random.between(0ns, spread));
    } else {
      question.at = random.between(0s, scenario.length);
    }
    scenario.questions.push_back(question);
  }
}

// More than every worker's part, over the middle of the outage.
void draw_flood(SimRandom& random, Scenario& scenario) {
  const FaultKind kind = random.percent(50) ? FaultKind::outage : FaultKind::hang;
  const Fault fault{.kind = kind,
                    .start = random.between(1s, 8s),
                    .length = random.between(1s, 4s),
                    .shard = kFloodShard};
  const auto units = route(0, flood_route()).rules.front().numbers.limit;
  for (std::uint32_t worker = 0; worker < kWorkers; ++worker) {
    for (std::uint32_t i = 0; i < units / kWorkers + 3; ++i) {
      scenario.questions.push_back({.at = fault.start + random.between(50ms, fault.length - 50ms),
                                    .worker = worker,
                                    .route = flood_route()});
    }
  }
  scenario.flood = fault;
  scenario.faults.push_back(fault);
}

std::string milliseconds(Nanos time) {
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(time).count();
  return std::to_string(us / 1000) + "." + std::to_string(1000 + std::abs(us % 1000)).substr(1) +
         "ms";
}

}  // namespace

std::string_view to_string(FaultKind kind) {
  return kNames[static_cast<std::size_t>(kind)];
}

bool cuts_off(FaultKind kind) {
  switch (kind) {
    case FaultKind::flush:
    case FaultKind::clock_step:
    case FaultKind::scripts_gone:
    case FaultKind::reload:
    case FaultKind::members_gone:
    case FaultKind::fallback_away:
    case FaultKind::disk_full:
    case FaultKind::disk_fails:
    case FaultKind::ledger_away:
    case FaultKind::ledger_cut:
    case FaultKind::ledger_words:
      return false;
    default:
      return true;
  }
}

bool is_of_one_worker(FaultKind kind) {
  switch (kind) {
    case FaultKind::delay:
    case FaultKind::cut:
    case FaultKind::cut_up:
    case FaultKind::cut_down:
    case FaultKind::lose_replies:
    case FaultKind::restart_worker:
    case FaultKind::crash_worker:
    case FaultKind::silence:
    case FaultKind::leave:
    case FaultKind::pause:
    case FaultKind::power_cut:
    case FaultKind::kill_unsaid:
    case FaultKind::disk_full:
    case FaultKind::disk_fails:
      return true;
    default:
      return false;
  }
}

bool replaces(FaultKind kind) {
  return kind == FaultKind::restart_worker || kind == FaultKind::crash_worker ||
         kind == FaultKind::leave || kind == FaultKind::power_cut || kind == FaultKind::kill_unsaid;
}

bool Scenario::loses_data() const {
  return has(FaultKind::flush) || has(FaultKind::restart_empty) || has(FaultKind::restart_old) ||
         has(FaultKind::promote) || has(FaultKind::split);
}

bool Scenario::replaces_somebody() const {
  return std::any_of(faults.begin(), faults.end(), [](const Fault& f) { return replaces(f.kind); });
}

bool Scenario::has(FaultKind kind) const {
  return std::any_of(faults.begin(), faults.end(), [&](const Fault& f) { return f.kind == kind; });
}

std::string Scenario::text() const {
  std::string out = "seed " + std::to_string(seed) + ", temperament " +
                    std::to_string(temperament) + ", jitter " + milliseconds(jitter);
  if (shards > 1) out += ", " + std::to_string(shards) + " shards";
  if (fallback) out += ", a fallback store";
  if (turn > 0ns) out += ", turns of " + milliseconds(turn);
  if (meters) out += ", metered";
  out += "\n";
  if (members) {
    out += "  members read in the store, after " + milliseconds(warm_up) + ":";
    for (std::uint32_t i = 0; i < tenures.size(); ++i) {
      out += " " + std::to_string(i) + (tenures[i].lasts ? " lasts" : "");
      if (tenures[i].joins_at) out += " joins at " + milliseconds(*tenures[i].joins_at);
      out += i + 1 < tenures.size() ? "," : "\n";
    }
  }
  for (const Fault& fault : faults) {
    out += "  " + milliseconds(fault.start) + " +" + milliseconds(fault.length) + " " +
           std::string(to_string(fault.kind));
    if (is_of_one_worker(fault.kind) || fault.kind == FaultKind::promote) {
      out += " worker " + std::to_string(fault.worker);
    }
    if (fault.kind == FaultKind::pause)
      out += " and first " + std::to_string(static_cast<int>(fault.first));
    if (fault.kind == FaultKind::split) {
      out += " with";
      for (std::uint32_t i = 0; i < kWorkers; ++i)
        if (fault.stays(i)) out += " " + std::to_string(i);
    }
    if (shards > 1) {
      out += fault.shard == kFloodShard ? " of the flood's shard"
                                        : " shard " + std::to_string(fault.shard);
    }
    if (fault.amount != Nanos{0}) out += " by " + milliseconds(fault.amount);
    if (fault.ahead != Nanos{0}) out += " ahead " + milliseconds(fault.ahead);
    if (fault.nth > 0) out += " nth " + std::to_string(fault.nth);
    if (fault.kind == FaultKind::reload) out += " numbers " + std::to_string(fault.numbers);
    out += "\n";
  }
  return out;
}

namespace {

// What kind of fleet, on what kind of store.
void draw_surroundings(SimRandom& random, Scenario& scenario) {
  scenario.temperament = random.below(kTemperaments);
  scenario.length = kLength;
  scenario.warm_up = 100ms;
  if (random.percent(50)) scenario.jitter = random.between(0us, 3ms);
  if (random.percent(30)) scenario.turn = random.between(1us, 300us);
  const std::uint64_t store = random.below(100);
  scenario.fallback = store < 20;
  if (store >= 75) scenario.shards = 3;
  for (std::uint32_t i = 0; i < kWorkers; ++i) {
    scenario.walls.push_back(random.percent(50) ? 0ms : random.between(-800ms, 800ms));
  }
  scenario.members = random.percent(50);
  if (!scenario.members) return;
  scenario.length = random.between(kLength, kMostLength);
  // Before all have seen each other, or after.
  if (random.percent(60)) scenario.warm_up = 12s;
  for (std::uint32_t i = 0; i < kWorkers; ++i) {
    Tenure tenure{.lasts = random.percent(60)};
    tenure.disk = random.percent(10) ? random.between(100ms, 2s) : random.between(100us, 20ms);
    if (i > 0 && random.percent(20)) {
      tenure.joins_at = random.between(100ms, scenario.length - 3s);
    }
    scenario.tenures.push_back(tenure);
  }
  scenario.ends_late = random.percent(5);
}

}  // namespace

namespace {

Fault draw_fault_of_metering(SimRandom& random, const Scenario& scenario) {
  constexpr std::array kOften{FaultKind::power_cut,  FaultKind::power_cut,   FaultKind::kill_unsaid,
                              FaultKind::disk_full,  FaultKind::disk_fails,  FaultKind::ledger_away,
                              FaultKind::ledger_cut, FaultKind::ledger_words};
  Fault fault{.kind = kOften[random.below(kOften.size())]};
  fault.start = random.between(500ms, scenario.length - 5s);
  fault.length = random.between(1'200ms, 4s);
  fault.worker = static_cast<std::uint32_t>(random.below(kWorkers));
  switch (fault.kind) {
    case FaultKind::power_cut:
    case FaultKind::ledger_cut:
      fault.nth = 1 + random.below(random.percent(50) ? 12 : 60);
      break;
    case FaultKind::kill_unsaid:
    case FaultKind::ledger_words:
      fault.nth = 1 + random.below(4);
      break;
    default:
      break;
  }
  // Near an outage there is most to lose.
  for (const Fault& other : scenario.faults) {
    const bool of_store = other.kind == FaultKind::outage || other.kind == FaultKind::hang;
    if (of_store && random.percent(60))
      fault.start = other.start + random.between(0ns, other.length);
  }
  // In the flood everybody is offered a part, and nobody is replaced.
  if (scenario.flood && replaces(fault.kind))
    fault.start = std::max(fault.start, scenario.flood->start + scenario.flood->length + 100ms);
  return fault;
}

// Asked most where something goes wrong: of the store, of a disk, of the ledger.
void draw_metered_questions(SimRandom& random, Scenario& scenario) {
  Nanos from{0};
  Nanos width = 1ms;
  std::uint32_t worker = 0;
  bool of_one = false;
  for (int i = 0; i < kMeteredQuestions; ++i) {
    if (random.percent(12)) {
      const Fault& near = scenario.faults[random.below(scenario.faults.size())];
      from = near.start + (random.percent(20) ? near.length : 0ns);
      width = random.percent(50) ? near.length : random.between(1ms, 100ms);
      worker = near.worker;
      of_one = is_of_one_worker(near.kind) || random.percent(30);
    }
    Question question{.worker = static_cast<std::uint32_t>(random.below(kWorkers)),
                      .route = flood_route() + 1 + random.below(2),
                      .user = random.percent(80) ? 0U : 1U};
    if (random.percent(20)) question.cost = 2 + random.below(2);
    if (random.percent(70)) {
      question.at = from + random.between(0ns, width);
      if (of_one) question.worker = worker;
    } else {
      question.at = random.between(0s, scenario.length);
    }
    scenario.questions.push_back(question);
  }
}

// Often where something goes wrong, to a worker that it goes wrong for.
void draw_place(SimRandom& random, const Scenario& scenario, Question& question) {
  question.worker = static_cast<std::uint32_t>(random.below(kWorkers));
  question.user = random.percent(80) ? 0U : 1U;
  question.at = random.between(0s, scenario.length);
  if (!random.percent(70)) return;
  const Fault& near = scenario.faults[random.below(scenario.faults.size())];
  question.at = near.start + random.between(-100ms, near.length + 100ms);
  question.at = std::max(question.at, Nanos{0});
  if (is_of_one_worker(near.kind) && random.percent(70)) question.worker = near.worker;
}

// The same before and after a process is replaced.
void draw_restart_between(SimRandom& random, Scenario& scenario, Question question) {
  std::vector<const Fault*> replacing;
  for (const Fault& fault : scenario.faults) {
    if (replaces(fault.kind)) replacing.push_back(&fault);
  }
  if (replacing.empty()) return;
  const Fault& near = *replacing[random.below(replacing.size())];
  question.worker = near.worker;
  question.at = std::max(Nanos{0}, near.start - random.between(0ns, 300ms));
  scenario.questions.push_back(question);
  question.at = near.start + near.length + random.between(0ns, 800ms);
  scenario.questions.push_back(question);
}

// Requests that come again: soon or late, to the worker that had them or to another one, and now
// and then as another request under the same name.
void draw_named_requests(SimRandom& random, Scenario& scenario) {
  for (std::uint32_t name = 1; name <= kNamedRequests; ++name) {
    Question first{.route = named_route(), .cost = 1 + random.below(3), .name = name};
    draw_place(random, scenario, first);
    scenario.questions.push_back(first);
    const std::uint64_t times = 1 + random.below(4);
    for (std::uint64_t i = 0; i < times; ++i) {
      Question again = first;
      again.at += random.percent(40) ? random.between(0ns, 20ms) : random.between(20ms, 5s);
      if (random.percent(50)) again.worker = static_cast<std::uint32_t>(random.below(kWorkers));
      if (again.worker == first.worker && random.percent(10)) ++again.cost;
      scenario.questions.push_back(again);
    }
    if (random.percent(40)) draw_restart_between(random, scenario, first);
  }
}

void draw_stays(SimRandom& random, Scenario& scenario) {
  constexpr std::array kEnds{OnExpiry::full, OnExpiry::last_heartbeat, OnExpiry::zero};
  for (int i = 0; i < kStays; ++i) {
    Question question{.route = reserved_route(), .cost = 2 + random.below(5), .stay = {}};
    question.stay = scenario.stays.size();
    draw_place(random, scenario, question);
    Stay stay{
        .terms = {.expire = random.between(1s, 4s), .on_expiry = kEnds[random.below(kEnds.size())]},
        .beats = {}};
    Nanos after{0};
    for (std::uint64_t beats = random.below(4); beats > 0; --beats) {
      after += random.between(50ms, stay.terms.expire);
      stay.beats.push_back({.after = after, .so_far = 1 + random.below(8)});
    }
    if (random.percent(70)) {
      stay.settled_after = random.between(10ms, after + stay.terms.expire * 3 / 2);
      stay.uses = random.below(9);
      stay.asks_again = random.percent(40);
    }
    scenario.stays.push_back(std::move(stay));
    scenario.questions.push_back(question);
  }
}

// By numbers of its own: what was drawn before stays as it was.
void draw_requests(std::uint64_t seed, Scenario& scenario) {
  if (!scenario.meters) return;
  SimRandom random(seed ^ 0x6e616d65'64000000U);
  draw_named_requests(random, scenario);
  draw_stays(random, scenario);
}

// As above.
void draw_metering(std::uint64_t seed, Scenario& scenario) {
  SimRandom random(seed ^ 0x6a6f75726e616c00U);
  if (scenario.shards > 1 || !random.percent(30)) return;
  scenario.meters = true;
  scenario.within = random.between(5ms, 100ms);
  for (std::uint32_t i = 0; i < kWorkers; ++i) {
    scenario.disks.push_back(random.percent(10) ? random.between(3ms, 40ms)
                                                : random.between(20us, 3ms));
  }
  if (!scenario.flood && !scenario.has(FaultKind::outage) && !scenario.has(FaultKind::hang)) {
    scenario.faults.push_back({.kind = FaultKind::outage,
                               .start = random.between(1s, scenario.length - 6s),
                               .length = random.between(1s, 5s)});
  }
  const std::uint64_t faults = 1 + random.below(3);
  for (std::uint64_t i = 0; i < faults; ++i)
    scenario.faults.push_back(draw_fault_of_metering(random, scenario));
  draw_metered_questions(random, scenario);
}

// Of the time of a pause: what waits for it then, and what comes of that.
void draw_questions_of_pause(SimRandom& random, const Fault& pause, Scenario& scenario) {
  constexpr int kEach = 24;
  // Of a fleet that meters, most about what it meters: by nobody's deadline but the disk's.
  const bool metered = scenario.meters && random.percent(70);
  const std::array<std::size_t, 2> routes{
      0, metered ? flood_route() + 1 + random.below(2) : random.below(flood_route())};
  for (int i = 0; i < kEach; ++i) {
    Question question = draw_question(random, {routes.begin(), routes.end()});
    if (is_metered(question.route)) question.patience.reset();
    if (random.percent(75)) question.worker = pause.worker;
    // Most are asked just before it, so that it falls into their time, and as it is over.
    const std::uint64_t when = random.below(3);
    const Nanos near = random.between(0ns, 12ms);
    question.at = when == 0   ? pause.start - near
                  : when == 1 ? pause.start + pause.length + near
                              : pause.start + random.between(0ns, pause.length);
    scenario.questions.push_back(question);
  }
}

// By numbers of their own, as what concerns metering.
void draw_pauses(std::uint64_t seed, Scenario& scenario) {
  SimRandom random(seed ^ 0x73746f7070656400U);
  if (!random.percent(25)) return;
  const std::uint64_t pauses = 1 + random.below(3);
  for (std::uint64_t i = 0; i < pauses; ++i) {
    Fault fault{.kind = FaultKind::pause};
    fault.worker = static_cast<std::uint32_t>(random.below(kWorkers));
    fault.first = static_cast<testing::SimProcess::First>(random.below(3));
    fault.start = random.between(500ms, scenario.length - 5s);
    fault.length = random.percent(60) ? random.between(1ms, 60ms) : random.between(60ms, 4s);
    // Longer than a lease.
    if (scenario.members && random.percent(20)) fault.length = random.between(16s, 35s);
    // Near another fault there is most to get wrong.
    if (random.percent(50)) {
      const Fault& near = scenario.faults[random.below(scenario.faults.size())];
      fault.start = std::max<Nanos>(0ns, near.start + random.between(-30ms, near.length));
    }
    scenario.faults.push_back(fault);
    draw_questions_of_pause(random, fault, scenario);
  }
}

// Half of the failovers leave more than one worker with the old master.
void draw_split(std::uint64_t seed, Scenario& scenario) {
  SimRandom random(seed ^ 0x73706c6974746564U);
  for (Fault& fault : scenario.faults) {
    if (fault.kind != FaultKind::promote || !random.percent(50)) continue;
    fault.kind = FaultKind::split;
    // Everybody, where it is cut off from its replicas alone.
    const bool all = random.percent(30);
    for (std::uint32_t i = 0; i < kWorkers; ++i)
      if (all || i == fault.worker || random.percent(50)) fault.side |= std::uint64_t{1} << i;
  }
}

}  // namespace

std::string name_of(std::uint32_t name) {
  return "request " + std::to_string(name);
}

Scenario draw(std::uint64_t seed) {
  SimRandom random(seed);
  Scenario scenario;
  scenario.seed = seed;
  draw_surroundings(random, scenario);
  if (random.percent(40)) draw_flood(random, scenario);
  // Two kinds at least, and now and then one of them again.
  std::array<bool, kFaultKinds> drawn{};
  const std::size_t wanted = 2 + random.below(3);
  for (std::size_t kinds = scenario.flood ? 1 : 0; kinds < wanted;) {
    const std::size_t place = random.below(kDrawnForAll);
    const auto kind = static_cast<FaultKind>(place);
    if (!fits(kind, scenario) || (drawn[place] && comes_once(kind))) continue;
    if (scenario.flood && kind == scenario.flood->kind) continue;
    if (!drawn[place]) ++kinds;
    drawn[place] = true;
    scenario.faults.push_back(draw_fault(kind, scenario, random));
  }
  draw_questions(random, scenario);
  draw_metering(seed, scenario);
  draw_split(seed, scenario);
  draw_pauses(seed, scenario);
  draw_requests(seed, scenario);
  return scenario;
}

}  // namespace weir::sim
