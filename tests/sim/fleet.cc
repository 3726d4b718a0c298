#include "sim/fleet.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

namespace weir::sim {

using namespace std::chrono_literals;
using testing::LuaRedis;
using testing::SimLink;
using testing::SimLoop;
using testing::SimRedis;

namespace {

constexpr std::array<std::string_view, 2> kUsers{"ann", "bob"};

class Fleet {
 public:
  Fleet(const Scenario& scenario, Canary canary)
      : scenario_(scenario), canary_(canary), server_(loop_, scenario.seed + 1) {
    history_.scenario = scenario;
    policy::StoreSpec spec = policy(scenario.temperament, 0).model().store;
    const Nanos ramp = spec.recovery.step * static_cast<int>(spec.recovery.steps);
    const auto jitter = static_cast<int>(spec.breaker.jitter * 100 + 0.5);
    back_within_ = spec.breaker.max_cooldown * (100 + jitter) / 100 + ramp +
                   2 * (spec.connect_timeout + spec.deadline);
    for (SimLink& link : links_) link.jitter = scenario.jitter;
    for (std::uint32_t i = 0; i < kWorkers; ++i) start_worker(i);
    plant();
  }

  History run() {
    loop_.run_for(100ms);
    history_.began = loop_.mono();
    for (const Fault& fault : scenario_.faults) schedule(fault);
    for (const Question& question : scenario_.questions) {
      loop_.at(history_.began + question.at, [this, &question] { ask(question, false); });
    }
    loop_.run_for(scenario_.length);
    // A server that was slow has still to do what it was given meanwhile.
    if (server_.busy_until() > loop_.mono()) loop_.run_for(server_.busy_until() - loop_.mono());
    loop_.run_for(back_within_);
    ask_for_the_last_time();
    finish();
    return std::move(history_);
  }

 private:
  struct Seat {
    std::unique_ptr<Worker> worker;
    std::uint64_t incarnation = 0;
    std::size_t numbers = 0;
    std::uint64_t unknown = 0;  // of those before
    std::uint64_t over_bound = 0;
  };

  void start_worker(std::uint32_t index) {
    Seat& seat = seats_[index];
    seat.incarnation = ++incarnations_;
    const bool whole = canary_ == Canary::whole_limits;
    seat.worker = std::make_unique<Worker>(policy(scenario_.temperament, seat.numbers),
                                           Worker::Place{whole ? 0 : index, whole ? 1 : kWorkers},
                                           loop_, server_, links_[index], scenario_.walls[index],
                                           scenario_.seed * 1'000 + seat.incarnation);
  }

  void count(Seat& seat) {
    seat.unknown += seat.worker->unknown();
    seat.over_bound += seat.worker->driver().counters().over_bound();
  }

  void end_worker(std::uint32_t index, bool crash) {
    Seat& seat = seats_[index];
    if (crash) {
      for (Record& record : history_.records) {
        if (record.incarnation == seat.incarnation && record.answers == 0) record.void_ = true;
      }
      // Whatever it had asked may have been counted, or not.
      ++seat.unknown;
    }
    seat.worker->driver().stop();
    count(seat);
    seat.worker.reset();
  }

  void ask(const Question& question, bool last) {
    Seat& seat = seats_[question.worker];
    Record& record = history_.records.emplace_back();
    record.question = question;
    record.last = last;
    record.incarnation = seat.incarnation;
    record.numbers = seat.numbers;
    record.asked_at = loop_.mono();
    seat.worker->check(route(0, question.route).name, kUsers[question.user],
                       {.cost = question.cost, .deadline = question.patience},
                       [this, &record](Decision decision) {
                         if (record.void_) return;
                         ++record.answers;
                         record.decision = std::move(decision);
                         record.decided_at = loop_.mono();
                       });
  }

  // Every worker about every counter that was ever asked: all are back at the store, and tell it
  // what they still owe; and then one of them, what it has come to.
  void ask_for_the_last_time() {
    std::array<std::array<bool, 2>, 32> asked{};
    for (const Record& record : history_.records) {
      asked[record.question.route][record.question.user] = true;
    }
    for (int round = 0; round < 2; ++round) {
      for (std::size_t route = 0; route < routes(); ++route) {
        for (std::uint32_t user = 0; user < kUsers.size(); ++user) {
          if (!asked[route][user]) continue;
          for (std::uint32_t worker = 0; worker < (round == 0 ? kWorkers : 1); ++worker) {
            ask({.worker = worker, .route = route, .user = user, .cost = 0}, true);
          }
          loop_.run_for(50ms);
        }
      }
      loop_.run_for(2s);  // beyond the age of a known denial
    }
  }

  void finish() {
    for (Seat& seat : seats_) {
      const auto state = seat.worker->driver().ladder().breaker().state();
      if (state != breaker::ProbeState::closed) {
        history_.not_closed.emplace_back(breaker::to_string(state));
      }
      count(seat);
      history_.unknown.push_back(seat.unknown);
      history_.over_bound += seat.over_bound;
      history_.numbers = seat.numbers;
    }
    look_at_expiry();
    history_.events = loop_.events();
  }

  void look_at_expiry() {
    for (const auto& [key, value] : server_.redis().keys()) {
      if (!value.expires_at) history_.keys_without_expiry.push_back(key);
    }
  }

  // ---- Faults.

  void schedule(const Fault& fault) {
    loop_.at(history_.began + fault.start, [this, &fault] { begin(fault); });
    loop_.at(history_.began + fault.start + fault.length, [this, &fault] { mend(fault); });
    if (!cuts_off(fault.kind)) return;
    for (std::uint32_t worker = 0; worker < kWorkers; ++worker) {
      if (is_of_one_worker(fault.kind) && worker != fault.worker) continue;
      history_.exposed.push_back(
          {.worker = worker,
           .from = history_.began + fault.start,
           .until = history_.began + fault.start + fault.length + back_within_});
    }
  }

  void begin(const Fault& fault) {
    SimLink& link = links_[fault.worker];
    switch (fault.kind) {
      case FaultKind::outage:
        server_.stop();
        break;
      case FaultKind::hang:
        server_.hang();
        break;
      case FaultKind::slow:
        server_.set_work(fault.amount);
        break;
      case FaultKind::delay:
        link.latency += fault.amount;
        break;
      case FaultKind::cut:
        link.cut_up = link.cut_down = true;
        break;
      case FaultKind::cut_up:
        link.cut_up = true;
        break;
      case FaultKind::cut_down:
      case FaultKind::lose_replies:
        link.cut_down = true;
        break;
      case FaultKind::flush:
        server_.redis().execute({"FLUSHALL"});
        history_.losses.push_back(loop_.mono());
        break;
      case FaultKind::restart_empty:
      case FaultKind::restart_old:
        dump_ = server_.redis().keys();
        break;
      case FaultKind::clock_step:
        server_.set_ahead(server_.ahead() + fault.amount);
        history_.steps.emplace_back(loop_.mono(), fault.amount);
        break;
      case FaultKind::scripts_gone:
        server_.redis().execute({"SCRIPT", "FLUSH"});
        break;
      case FaultKind::restart_worker:
      case FaultKind::crash_worker:
        end_worker(fault.worker, fault.kind == FaultKind::crash_worker);
        start_worker(fault.worker);
        break;
      case FaultKind::reload:
        reload(fault, 0);
        break;
    }
  }

  void mend(const Fault& fault) {
    SimLink& link = links_[fault.worker];
    switch (fault.kind) {
      case FaultKind::outage:
        server_.start_with_what_it_had();
        break;
      case FaultKind::hang:
        server_.go_on();
        break;
      case FaultKind::slow:
        server_.set_work(0ns);
        // What has come meanwhile is still to be done.
        for (std::uint32_t worker = 0; worker < kWorkers; ++worker) {
          history_.exposed.push_back({.worker = worker,
                                      .from = loop_.mono(),
                                      .until = server_.busy_until() + back_within_});
        }
        break;
      case FaultKind::delay:
        link.latency -= fault.amount;
        break;
      case FaultKind::lose_replies:
        server_.reset(link);
        [[fallthrough]];
      case FaultKind::cut:
      case FaultKind::cut_up:
      case FaultKind::cut_down:
        link.cut_up = link.cut_down = false;
        server_.mended(link);
        break;
      case FaultKind::restart_empty:
        server_.start_with({});
        history_.losses.push_back(loop_.mono());
        break;
      case FaultKind::restart_old:
        server_.start_with(dump_);
        history_.losses.push_back(loop_.mono());
        break;
      default:
        break;
    }
  }

  void reload(const Fault& fault, std::uint32_t worker) {
    if (worker == kWorkers) return;
    if (worker == 0) history_.reload.emplace(loop_.mono(), loop_.mono());
    history_.reload->second = loop_.mono();
    seats_[worker].numbers = fault.numbers;
    seats_[worker].worker->reload(policy(scenario_.temperament, fault.numbers));
    loop_.after(fault.length / kWorkers, [this, &fault, worker] { reload(fault, worker + 1); });
  }

  // ---- Canaries.

  void plant() {
    if (canary_ == Canary::none || canary_ == Canary::whole_limits) return;
    server_.on_command = [this](const std::vector<std::string>& command) {
      LuaRedis& redis = server_.redis();
      switch (canary_) {
        case Canary::owed_twice:
          tell_all("DEL", [](const std::string& key) {
            return key.find("}!") == std::string::npos && key.find('!') != std::string::npos;
          });
          break;
        case Canary::runs_twice:
          if (command.front() == "EVALSHA") redis.execute(command);
          break;
        case Canary::no_expiry:
          tell_all("PERSIST", [](const std::string&) { return true; });
          break;
        default:
          break;
      }
    };
  }

  // Has the server run a command on each key.
  template <class Which>
  void tell_all(const std::string& command, Which which) {
    std::vector<std::string> keys;
    for (const auto& [key, value] : server_.redis().keys()) {
      if (which(key)) keys.push_back(key);
    }
    for (const std::string& key : keys) server_.redis().execute({command, key});
  }

  const Scenario& scenario_;
  const Canary canary_;
  SimLoop loop_;
  SimRedis server_;
  std::array<SimLink, kWorkers> links_;
  std::array<Seat, kWorkers> seats_;
  LuaRedis::Keys dump_;
  std::uint64_t incarnations_ = 0;
  Nanos back_within_{0};
  History history_;
};

}  // namespace

History run(const Scenario& scenario, Canary canary) {
  return Fleet(scenario, canary).run();
}

}  // namespace weir::sim
