#include "sim/audit.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <utility>

#include "guard/patience.h"
#include "ladder/bound.h"
#include "limit/parts.h"
#include "limit/step.h"
#include "sim/request_audit.h"
#include "sim/usage_audit.h"

namespace weir::sim {

using namespace std::chrono_literals;
using limit::Numbers;

namespace {

bool windowed(const Numbers& numbers) {
  return numbers.algorithm == Algorithm::fixed_window ||
         numbers.algorithm == Algorithm::sliding_window;
}

class Audit {
 public:
  explicit Audit(const History& history) : history_(history) {}

  std::vector<std::string> all() {
    for (const Record& record : history_.records) {
      if (!record.void_) look_at(record);
    }
    for (std::size_t place = 0; place < routes(); ++place) {
      for (std::uint32_t user = 0; user < 2; ++user) {
        // What is settled gives back and takes: those counters have no history of admissions alone.
        if (place == reserved_route()) continue;
        for (std::size_t rule = 0; rule < route(0, place).rules.size(); ++rule) {
          counter(place, user, rule);
        }
        if (place != named_route()) told_alike(place, user);
      }
    }
    if (history_.flood_parts) parts_were_let_through();
    for (const std::string& state : history_.not_closed) fault("a breaker is still " + state);
    for (const std::string& key : history_.keys_without_expiry) {
      fault("key without time to live: " + key);
    }
    for (const std::string& parts : history_.over_parts) fault(parts);
    for (const std::string& who : history_.no_part) fault("no part in the end: " + who);
    for (const std::string& key : history_.late_writes) {
      fault("written by an ask that came too late: " + key);
    }
    told_no_more_than_parts();
    if (history_.scenario.meters) {
      for (std::string& each : audit_usage(history_)) fault(std::move(each));
      for (std::string& each : audit_requests(history_)) fault(std::move(each));
    }
    return std::move(faults_);
  }

 private:
  // A worker that is replaced within a window tells a part of its own; one whose limit is lowered,
  // or whose window begins anew, what it was allowed before; one of whom others knew nothing, what
  // they have as well; and one that joined, its part of what others had used up by then.
  void told_no_more_than_parts() {
    const bool anew = history_.reload || !history_.steps.empty() ||
                      history_.scenario.replaces_somebody() || history_.left_out_above ||
                      divided_anew();
    if (history_.over_bound != 0 && !anew) fault("more was told than all parts come to");
  }

  // Whether parts of one counter were used within one window before and after somebody joined.
  bool divided_anew() const {
    std::map<std::pair<std::size_t, std::uint32_t>, const Record*> latest;
    for (const Record& record : history_.records) {
      if (!record.decision || !record.decision->allowed() || record.divided_by == 0) continue;
      const Record*& before = latest[{record.question.route, record.question.user}];
      if (before != nullptr && before->divided_by != record.divided_by) {
        for (const policy::Rule& rule : route(0, record.question.route).rules) {
          if (record.asked_at - before->decided_at <= Nanos(rule.numbers.period_ns)) return true;
        }
      }
      before = &record;
    }
    return false;
  }

  void fault(std::string text) {
    if (faults_.size() < 12) faults_.push_back(std::move(text));
  }
  void fault(const Record& record, const std::string& text) {
    const auto us =
        std::chrono::duration_cast<std::chrono::microseconds>(record.asked_at - history_.began);
    std::string line = std::to_string(us.count()) + "us worker " +
                       std::to_string(record.question.worker) + " route " +
                       route(0, record.question.route).name + " user " +
                       std::to_string(record.question.user) + " cost " +
                       std::to_string(record.question.cost) + ": " + text;
    if (record.decision) {
      const auto took = std::chrono::duration_cast<std::chrono::microseconds>(record.decided_at -
                                                                              record.asked_at);
      line += " (after " + std::to_string(took.count()) + "us " +
              std::string(to_string(record.decision->verdict)) + " by " +
              std::string(to_string(record.decision->rung)) + ", " +
              std::string(to_string(record.decision->reason)) + ")";
    }
    fault(std::move(line));
  }

  // ---- One answer.

  const std::vector<Target>& targets(const Record& record) const {
    return history_.targets[record.question.route][record.question.user];
  }

  bool exposed(const Record& record) const {
    return std::any_of(history_.exposed.begin(), history_.exposed.end(), [&](const Exposed& e) {
      return e.worker == record.question.worker && e.from <= record.decided_at &&
             record.asked_at <= e.until &&
             std::any_of(targets(record).begin(), targets(record).end(),
                         [&](const Target& target) { return target.shard == e.shard; });
    });
  }

  // Whether its counters lie on several shards.
  bool is_split(const Record& record) const {
    const auto& of = targets(record);
    return std::any_of(of.begin(), of.end(),
                       [&](const Target& target) { return target.shard != of[0].shard; });
  }

  Nanos deadline_of(const Record& record) const {
    const Nanos most = policy(history_.scenario.temperament, 0).model().store.deadline *
                       (history_.scenario.fallback ? 2 : 1);
    return guard::patience_of(record.question.patience, most);
  }

  void look_at(const Record& record) {
    if (record.answers != 1 || !record.decision) {
      fault(record, "answered " + std::to_string(record.answers) + " times");
      return;
    }
    const Nanos deadline = deadline_of(record);
    // Who is handed on to a second store just before that waits for a turn of the store's thread.
    const Nanos turn = history_.scenario.fallback ? history_.scenario.turn : Nanos{0};
    // Without the store what is metered is on the disk before it is answered: whoever comes while a
    // commit is under way waits for that one, too.
    const Nanos disk = history_.scenario.meters && is_metered(record.question.route)
                           ? 4 * history_.scenario.disks[record.question.worker]
                           : Nanos{0};
    if (record.decided_at > heard_of_by(record, record.asked_at + deadline, turn + disk)) {
      fault(record, "answered after its deadline");
    }
    const Rung rung = record.decision->rung;
    const bool without = rung != Rung::store && rung != Rung::known;
    // Asked without patience enough for a healthy store, an ask is decided without it.
    const auto in_time = [&] { return deadline >= 10ms && deadline >= needs(record); };
    // Who admitted it before says nothing about now; nor does a name that is taken.
    const bool by_name = record.decision->replayed || record.decision->reason == Reason::key_reused;
    // What is reserved is on the disk first, with the store or without it.
    const bool by_disk = record.question.stay && rung == Rung::journal && disk_fails(record);
    if (without && !by_name && !by_disk && !exposed(record) && in_time()) {
      fault(record, "decided without the store, which was there");
    }
    if (record.last && rung != Rung::store && rung != Rung::known) fault(record, "not back");
    never_fits(record);
    by_policy(record);
  }

  // What a healthy store may take: as many round trips as it takes to be heard.
  Nanos needs(const Record& record) const {
    const Scenario& of = history_.scenario;
    constexpr Nanos kLatency = 200us;
    int trips = 1;
    // Callers that ask alike ask as one: where not all fit, those who do ask again, and where
    // others were after the same units, everybody asks alone.
    if (asked_in_company(record)) trips += 2;
    // Asked after the old time, or for a script that is gone, it is asked again.
    for (const Fault& fault : of.faults) {
      const bool again =
          fault.kind == FaultKind::clock_step || fault.kind == FaultKind::scripts_gone;
      if (again && !has_heard_since(history_.began + fault.start, record)) ++trips;
    }
    return trips * 2 * (kLatency + of.jitter) + of.turn;
  }

  bool asked_in_company(const Record& record) const {
    return std::any_of(history_.records.begin(), history_.records.end(), [&](const Record& other) {
      return &other != &record && other.incarnation == record.incarnation &&
             other.question.route == record.question.route &&
             other.question.user == record.question.user &&
             std::chrono::abs(other.asked_at - record.asked_at) <= history_.scenario.turn;
    });
  }

  // Whether its worker had asked the store after that, and heard, before it was asked.
  bool has_heard_since(MonoTime when, const Record& record) const {
    if (when > record.decided_at) return true;
    return std::any_of(history_.records.begin(), history_.records.end(), [&](const Record& other) {
      return other.incarnation == record.incarnation && other.decision &&
             other.decision->rung == Rung::store && other.asked_at >= when &&
             other.decided_at <= record.asked_at && share_a_shard(other, record);
    });
  }

  bool share_a_shard(const Record& a, const Record& b) const {
    return std::any_of(targets(a).begin(), targets(a).end(), [&](const Target& one) {
      return std::any_of(targets(b).begin(), targets(b).end(),
                         [&](const Target& other) { return one.shard == other.shard; });
    });
  }

  // When its worker is to answer: by its time, or where it was stopped then, as it goes on.
  MonoTime heard_of_by(const Record& record, MonoTime due, Nanos more) const {
    due += more;
    for (const Pause& pause : history_.pauses) {
      if (pause.incarnation == record.incarnation && !pause.killed &&
          record.asked_at <= pause.until && pause.from <= due)
        due = std::max(due, pause.until + more);
    }
    return due;
  }

  bool disk_fails(const Record& record) const {
    const auto& faults = history_.scenario.faults;
    return std::any_of(faults.begin(), faults.end(), [&](const Fault& fault) {
      const bool of_disk = fault.kind == FaultKind::disk_full ||
                           fault.kind == FaultKind::disk_fails ||
                           fault.kind == FaultKind::power_cut;
      return of_disk && fault.worker == record.question.worker;
    });
  }

  // No wait helps a cost that one of the limits could never hold, whoever says so.
  void never_fits(const Record& record) {
    const Decision& decision = *record.decision;
    const bool told = decision.rung == Rung::store || decision.rung == Rung::known;
    if (decision.verdict != Verdict::limited || !told) return;
    const auto above = [&](const policy::Route& of) {
      return std::any_of(of.rules.begin(), of.rules.end(), [&](const policy::Rule& rule) {
        return !rule.shadow && record.question.cost > rule.numbers.burst;
      });
    };
    const bool before = above(route(0, record.question.route));
    if (before != above(route(history_.numbers, record.question.route))) return;
    const bool says = decision.reason == Reason::cost_exceeds_burst;
    if (says != before) fault(record, before ? "said to fit some day" : "said never to fit");
    if (says == decision.retry_after.has_value()) {
      fault(record, says ? "a wait for what never fits" : "no wait for what will fit");
    } else if (decision.retry_after && *decision.retry_after <= Nanos{0}) {
      fault(record, "a wait of nothing");
    }
  }

  void by_policy(const Record& record) {
    const Decision& decision = *record.decision;
    const FailurePolicy policy = route(0, record.question.route).when_store_fails;
    const bool open = policy == FailurePolicy::open;
    const bool bounded = policy == FailurePolicy::bounded;
    const bool settles = policy == FailurePolicy::settle;
    switch (decision.verdict) {
      case Verdict::refused:
        if (decision.rung != Rung::policy && !(settles && decision.rung == Rung::journal))
          fault(record, "a refusal that is nobody's policy");
        if (open && decision.reason != Reason::over_ceiling) fault(record, "open refused");
        if (bounded && !record.no_part) fault(record, "refused although its worker has a part");
        break;
      case Verdict::allowed:
        if (decision.rung == Rung::policy && !open) fault(record, "allowed by no policy");
        if (decision.rung == Rung::share && !bounded && !settles)
          fault(record, "allowed from no part");
        if (decision.rung == Rung::journal && !settles) fault(record, "allowed for no journal");
        break;
      case Verdict::limited:
        if (decision.rung == Rung::policy) fault(record, "limited by policy");
        if (decision.rung == Rung::share && !bounded && !settles)
          fault(record, "limited by no part");
        break;
    }
  }

  // ---- One counter.

  struct Which {
    std::size_t place;
    std::uint32_t user;
    std::size_t rule;
  };
  struct Admission {
    const Record* record;
    Instant at;  // by the store's clock; by true time where that clock was set
  };

  void counter(std::size_t place, std::uint32_t user, std::size_t rule) {
    std::vector<const Record*> asked;
    std::vector<Admission> admitted;
    for (const Record& record : history_.records) {
      if (record.question.route != place || record.question.user != user) continue;
      asked.push_back(&record);
      if (!record.decision || !record.decision->allowed() || record.question.cost == 0) continue;
      if (record.decision->replayed) continue;  // it was admitted before
      admitted.push_back({&record, time_of(record)});
    }
    if (asked.empty()) return;
    std::stable_sort(admitted.begin(), admitted.end(),
                     [](const Admission& a, const Admission& b) { return a.at < b.at; });
    const Numbers& numbers = most_generous(place, rule);
    if (windowed(numbers)) {
      by_window({place, user, rule}, numbers, admitted);
    } else {
      by_interval({place, user, rule}, numbers, admitted);
    }
    if (numbers.period_ns == Nanos(1h).count()) counted_once(place, rule, asked);
    if (route(0, place).rules.size() == 1 && numbers.algorithm == Algorithm::fixed_window &&
        place != named_route()) {
      needlessly_denied(place, asked);
    }
  }

  Instant time_of(const Record& record) const {
    if (history_.steps.empty()) return record.decision->decided_at;
    return Instant{record.decided_at.time_since_epoch() + 1'700'000'000s};
  }

  const Numbers& most_generous(std::size_t place, std::size_t rule) const {
    const Numbers& before = route(0, place).rules[rule].numbers;
    const Numbers& after = route(history_.numbers, place).rules[rule].numbers;
    return after.limit > before.limit ? after : before;
  }

  void by_window(const Which& which, const Numbers& numbers,
                 const std::vector<Admission>& admitted) {
    std::map<Instant, std::vector<const Record*>> windows;
    for (const Admission& admission : admitted) {
      const Instant at = admission.record->decision->decided_at;
      windows[Instant{Nanos(limit::window_at(numbers, at).start_ns)}].push_back(admission.record);
    }
    for (const auto& [start, records] : windows) hold_against(which, numbers, records, Nanos{0});
  }

  void by_interval(const Which& which, const Numbers& numbers,
                   const std::vector<Admission>& admitted) {
    const Nanos period(numbers.period_ns);
    for (std::size_t first = 0; first < admitted.size(); ++first) {
      std::vector<const Record*> records;
      for (std::size_t i = first;
           i < admitted.size() && admitted[i].at < admitted[first].at + period; ++i) {
        records.push_back(admitted[i].record);
      }
      hold_against(which, numbers, records, period);
    }
  }

  // What these admissions of one window went through, and what may have been admitted then.
  void hold_against(const Which& which, const Numbers& numbers,
                    const std::vector<const Record*>& records, Nanos period) {
    std::uint64_t sum = 0;
    std::set<std::uint32_t> workers;
    std::map<std::uint64_t, std::uint64_t> parts;  // of those that admitted by themselves
    ladder::Exposure exposure{.workers = kWorkers, .store_answered = false};
    MonoTime from = records.front()->asked_at;
    MonoTime until = records.front()->decided_at;
    for (const Record* record : records) {
      sum += record->question.cost;
      from = std::min(from, record->asked_at);
      until = std::max(until, record->decided_at);
      const Rung rung = record->decision->rung;
      exposure.fallback_answered = exposure.fallback_answered || rung == Rung::fallback;
      // Of several shards one may have been there.
      exposure.store_answered = exposure.store_answered || rung == Rung::store || is_split(*record);
      if (rung == Rung::store || rung == Rung::fallback) continue;
      workers.insert(record->question.worker);
      std::uint64_t& part = parts[record->incarnation];
      part = std::max(part, record->part[which.rule]);
    }
    exposure.cut_off = static_cast<std::uint32_t>(workers.size());
    exposure.replaced = static_cast<std::uint32_t>(parts.size() - workers.size());
    const std::size_t shard = history_.targets[which.place][which.user][which.rule].shard;
    for (const Loss& loss : history_.losses) {
      exposure.losses += loss.shard == shard && from <= loss.until && loss.from <= until;
    }
    const auto bound = most_admitted(which, numbers, exposure, parts);
    if (!bound) return;
    const std::uint64_t most = *bound + for_steps(numbers, from, until, period, parts.size()) +
                               for_lowered(which, numbers, until);
    if (sum > most) {
      fault(*records.front(), std::to_string(sum) + " admitted within " +
                                  std::to_string((until - from) / 1ms) + " ms, and the bound is " +
                                  std::to_string(most));
    }
  }

  // Where the fleet reads in the store who is there, the parts are those that its workers had; that
  // they fit the limit together is looked at while they have them.
  std::optional<std::uint64_t> most_admitted(
      const Which& which, const Numbers& numbers, ladder::Exposure exposure,
      const std::map<std::uint64_t, std::uint64_t>& parts) const {
    const policy::Route& of = route(0, which.place);
    if (of.ceiling) exposure.ceiling = &of.ceiling->numbers;
    const bool metered = of.rules[which.rule].meter;
    if (metered) exposure.overspend = of.overspend->cap;
    const bool by_parts = of.when_store_fails == FailurePolicy::bounded ||
                          of.when_store_fails == FailurePolicy::settle;
    if (!history_.scenario.members || !by_parts) {
      return ladder::most_admitted(numbers, of.when_store_fails, exposure);
    }
    exposure.cut_off = exposure.replaced = 0;
    auto most = ladder::most_admitted(numbers, of.when_store_fails, exposure);
    for (const auto& [incarnation, part] : parts) *most += part;
    // What is served beyond the parts has a bound of its own; see usage_audit.h.
    if (metered) *most += kWorkers * of.overspend->cap;
    return most;
  }

  // A gcra limit that is lowered forgets what was used above it: raised again, the difference fits
  // once more. A worker that starts in the middle of a reload loads what was before, after others
  // loaded what is to be.
  std::uint64_t for_lowered(const Which& which, const Numbers& numbers, MonoTime until) const {
    if (!history_.reload || numbers.algorithm != Algorithm::gcra) return 0;
    std::map<Instant, std::uint64_t> limits;  // by the store's time
    for (const Record& record : history_.records) {
      if (record.question.route != which.place || record.question.user != which.user) continue;
      if (!record.decision || record.decision->rung != Rung::store || record.decided_at > until)
        continue;
      if (record.decision->rules().size() <= which.rule) continue;
      limits[record.decision->decided_at] = record.decision->rules()[which.rule].limit;
    }
    std::uint64_t more = 0;
    std::uint64_t before = 0;
    bool raised = false;  // the first time down is the reload's, and nothing is raised after it
    for (auto at = limits.rbegin(); at != limits.rend(); ++at) {
      if (at != limits.rbegin() && at->second > before && raised) more += at->second - before;
      raised = raised || (at != limits.rbegin() && at->second < before);
      before = at->second;
    }
    return more;
  }

  // A clock that is set forward is time that passes for a counter; a window whose clock is set
  // begins again.
  std::uint64_t for_steps(const Numbers& numbers, MonoTime from, MonoTime until, Nanos period,
                          std::size_t parts) const {
    std::uint64_t more = 0;
    for (const auto& [at, by] : history_.steps) {
      // Who was cut off hears of it later.
      if (at > until) continue;
      if (windowed(numbers)) {
        more += numbers.limit * (1 + parts);
      } else if (by > Nanos{0} || at >= from) {
        const Nanos ahead = std::max(by, Nanos{0}) + 40ms;
        const std::uint64_t longer = ladder::most_in(numbers, period + ahead);
        more += (longer - ladder::most_in(numbers, period)) * (1 + parts);
      }
    }
    return more;
  }

  // ---- Nothing twice, nothing lost.

  bool may_be_charged_unheard(const Record& record) const {
    if (record.void_ || record.answers == 0) return true;
    // What is known denies at once, or else after the store was asked in vain.
    if (record.decision->rung == Rung::known) return record.decided_at > record.asked_at;
    return record.decision->rung != Rung::store;
  }

  // A charge that was given back is brought back where the store lost its data after that, or began
  // anew with all it had, which nobody can tell from here; by a worker that had read it in between.
  bool may_come_back(const Record& record) const {
    const auto& faults = history_.scenario.faults;
    const bool lost =
        std::any_of(history_.losses.begin(), history_.losses.end(),
                    [&](const Loss& loss) { return record.asked_at <= loss.until; }) ||
        std::any_of(faults.begin(), faults.end(), [&](const Fault& fault) {
          return fault.kind == FaultKind::outage &&
                 record.asked_at <= history_.began + fault.start + fault.length;
        });
    // Of several shards one charged what another one denied.
    const bool denied_elsewhere =
        is_split(record) && record.decision && !record.decision->allowed();
    return lost && (denied_elsewhere || may_be_charged_unheard(record));
  }

  void counted_once(std::size_t place, std::size_t rule, const std::vector<const Record*>& asked) {
    const bool stepped = history_.scenario.has(FaultKind::clock_step);
    if (stepped) return;  // the hour may be another
    std::uint64_t admitted = 0;
    std::uint64_t by_store = 0;
    std::uint64_t by_fallback = 0;
    std::uint64_t beyond = 0;  // the parts: of which the store need not know
    std::uint64_t unheard = 0;
    const Record* final = nullptr;
    for (const Record* record : asked) {
      const std::uint64_t cost = record->question.cost;
      const bool known = history_.unknown[record->question.worker] == 0;
      if (!known && may_be_charged_unheard(*record)) unheard += cost;
      if (known && may_come_back(*record)) unheard += cost;
      if (!record->decision) continue;
      if (record->decision->allowed()) {
        admitted += cost;
        if (record->decision->rung == Rung::store) by_store += cost;
        // What the second store admitted is not owed to the first.
        if (record->decision->rung == Rung::fallback) by_fallback += cost;
        if (record->decision->rung == Rung::journal) beyond += cost;
      }
      if (record->last && record->decision->rung == Rung::store) final = record;
    }
    if (final == nullptr || final->decision->rules().size() <= rule) return;
    const RuleReport& report = final->decision->rules()[rule];
    if (!report.remaining) return;
    const std::uint64_t used = report.limit - *report.remaining;
    const bool open = route(0, place).when_store_fails == FailurePolicy::open;
    if (used > admitted + unheard) {
      fault(*final, "the store counts " + std::to_string(used) + ", and " +
                        std::to_string(admitted) + " were admitted");
    }
    const bool forgotten =
        !history_.losses.empty() || history_.reload || history_.scenario.replaces_somebody();
    const std::uint64_t least = open ? by_store : admitted - by_fallback - beyond;
    if (!forgotten && used < std::min<std::uint64_t>(report.limit, least)) {
      fault(*final, "the store counts " + std::to_string(used) + " of " + std::to_string(least) +
                        " that were admitted");
    }
  }

  // Whether the store may have charged it in this window: not before it was asked, and not after
  // its time, which ends where its worker is stopped as that goes on. Who is stopped decides in
  // another window than the one in which the store charged what it had sent.
  bool may_be_charged_in(Nanos window, const Numbers& numbers, const Record& record) const {
    // A worker knows the store's clock as well as its link lets it.
    constexpr Nanos kClock = 40ms;
    const MonoTime due = heard_of_by(record, record.asked_at + deadline_of(record), kClock);
    return store_time(record.asked_at) < window + Nanos(numbers.period_ns) &&
           window <= store_time(due);
  }

  Nanos store_time(MonoTime time) const {
    return history_.began_at.time_since_epoch() + (time - history_.began);
  }

  // A denial by the store, or by what it said: the window was used up, by what was admitted or may
  // have been charged.
  void needlessly_denied(std::size_t place, const std::vector<const Record*>& asked) {
    if (history_.reload || !history_.steps.empty()) return;
    const Numbers& numbers = route(0, place).rules.front().numbers;
    for (const Record* denied : asked) {
      if (!denied->decision || denied->decision->verdict != Verdict::limited) continue;
      if (denied->decision->rung != Rung::store && denied->decision->rung != Rung::known) continue;
      const Nanos window(limit::window_at(numbers, denied->decision->decided_at).start_ns);
      std::uint64_t used = std::max<std::uint64_t>(denied->question.cost, 1);
      for (const Record* other : asked) {
        if (other->asked_at > denied->decided_at) continue;
        // Admitted from a part, and charged as well without anybody hearing of it: twice.
        if (other->decision && other->decision->allowed() &&
            limit::window_at(numbers, other->decision->decided_at).start_ns == window.count()) {
          used += other->question.cost;
        }
        if (may_be_charged_unheard(*other) && may_be_charged_in(window, numbers, *other)) {
          used += other->question.cost;
        }
      }
      if (used <= numbers.limit) {
        fault(*denied, "denied with " + std::to_string(numbers.limit - used) + " of " +
                           std::to_string(numbers.limit) + " to spare");
      }
    }
  }

  // Those who ask alike in one moment are told as if they had asked one after the other: the first
  // of them are admitted, and each finds what those before it left.
  void told_alike(std::size_t place, std::uint32_t user) {
    const Record* before = nullptr;
    for (const Record& record : history_.records) {
      if (record.question.route != place || record.question.user != user) continue;
      const bool asked =
          record.decision && record.decision->rung == Rung::store && record.question.cost > 0;
      if (asked && before != nullptr && same_moment(*before, record)) after(*before, record);
      before = asked ? &record : nullptr;
    }
  }

  static bool same_moment(const Record& a, const Record& b) {
    return a.incarnation == b.incarnation && a.numbers == b.numbers && a.asked_at == b.asked_at &&
           a.decided_at == b.decided_at && a.decision->decided_at == b.decision->decided_at &&
           a.question.cost == b.question.cost && a.question.patience == b.question.patience;
  }

  void after(const Record& before, const Record& record) {
    if (!before.decision->allowed() && record.decision->allowed()) {
      fault(record, "admitted after one alike was denied");
    }
    const auto& earlier = before.decision->rules();
    const auto& later = record.decision->rules();
    for (std::size_t i = 0; i < later.size() && i < earlier.size(); ++i) {
      if (!earlier[i].remaining || !later[i].remaining) continue;
      // Other numbers came in between, by a worker that loaded them first.
      if (earlier[i].limit != later[i].limit) continue;
      const std::uint64_t taken = record.decision->allowed() ? record.question.cost : 0;
      if (*later[i].remaining + taken > *earlier[i].remaining) {
        fault(record, "told of " + std::to_string(*later[i].remaining) +
                          " left after one alike "
                          "was told of " +
                          std::to_string(*earlier[i].remaining));
      }
    }
  }

  // ---- Letting through what it can.

  void parts_were_let_through() {
    const Fault& outage = *history_.scenario.flood;
    const MonoTime from = history_.began + outage.start;
    const MonoTime until = from + outage.length;
    for (const Fault& fault : history_.scenario.faults) {
      // Who comes anew has read nothing, and who goes is asked no more.
      const bool meanwhile =
          fault.start < outage.start + outage.length && outage.start < fault.start + fault.length;
      if (history_.scenario.members && replaces(fault.kind) && meanwhile) return;
      if (fault.kind == FaultKind::pause && meanwhile) return;
    }
    std::uint64_t admitted = 0;
    for (const Record& record : history_.records) {
      if (record.question.route != flood_route() || record.last || record.void_) continue;
      if (record.asked_at < from || record.asked_at > until || !record.decision) continue;
      if (record.decision->allowed()) admitted += record.question.cost;
    }
    if (admitted * 100 < *history_.flood_parts * 95) {
      fault("an outage let " + std::to_string(admitted) + " of " +
            std::to_string(*history_.flood_parts) + " through");
    }
  }

  const History& history_;
  std::vector<std::string> faults_;
};

}  // namespace

std::vector<std::string> audit(const History& history) {
  return Audit(history).all();
}

}  // namespace weir::sim
