#include "sim/usage_audit.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace weir::sim {
namespace {

using Entry = SimLedger::Entry;

// A process, what it was asked for whom, and how much of it.
using Key = std::tuple<std::uint64_t, std::string, std::string, std::string, std::uint64_t>;

class UsageAudit {
 public:
  explicit UsageAudit(const History& history) : history_(history) {}

  std::vector<std::string> all() {
    for (const std::string& each : history_.not_settled) fault(each);
    once();
    for (const Record& record : history_.records) take(record);
    hold_together();
    for (const auto& [process, units] : missing_) may_be_missing(process, units);
    capped();
    return std::move(faults_);
  }

 private:
  void fault(std::string text) {
    if (faults_.size() < 8) faults_.push_back("usage: " + std::move(text));
  }

  void once() {
    std::uint64_t sum = 0;
    std::set<std::pair<std::uint64_t, std::uint64_t>> seen;
    for (const Entry& entry : history_.billed) {
      sum += entry.billed;
      // A request that came again is on record, and not on the bill.
      const bool again = entry.route == route(0, named_route()).name && entry.billed == 0;
      if (entry.billed != entry.units && !again)
        fault("billed another number of units than were used");
      if (seen.emplace(entry.process, entry.count).second) continue;
      fault("billed twice: event " + std::to_string(entry.count) + " of process " +
            std::to_string(entry.process));
    }
    if (sum != history_.billed_units) {
      fault("the ledger's lines come to " + std::to_string(history_.billed_units) +
            " units, its events to " + std::to_string(sum));
    }
  }

  static const policy::Rule& metered_rule(const Record& record) {
    const auto& rules = route(record.numbers, record.question.route).rules;
    return *std::find_if(rules.begin(), rules.end(),
                         [](const policy::Rule& rule) { return rule.meter; });
  }

  // What this answer, or its absence, says of the ledger.
  void take(const Record& record) {
    if (!is_plainly_metered(record.question.route) || record.question.cost == 0) return;
    const Key key{record.incarnation, route(0, record.question.route).name,
                  metered_rule(record).name, kUsers[record.question.user], record.question.cost};
    Told& told = told_[key];
    const Life& life = history_.lives.at(record.incarnation);
    if (record.void_ || !record.decision) {
      ++told.perhaps;
    } else if (record.decision->allowed()) {
      told.yes.push_back(&record);
    } else if (life.crashed || life.unwell) {
      // Refused for a disk that failed: nobody may have been left to take it back there.
      const Rung rung = record.decision->rung;
      if (rung == Rung::journal || rung == Rung::share) ++told.perhaps;
    }
  }

  void hold_together() {
    std::map<Key, std::vector<Instant>> billed;
    for (const Entry& entry : history_.billed) {
      if (entry.route == route(0, named_route()).name ||
          entry.route == route(0, reserved_route()).name)
        continue;  // see request_audit.h
      billed[{entry.process, entry.route, entry.rule, entry.tenant, entry.units}].push_back(
          entry.at);
    }
    for (auto& [key, told] : told_) {
      std::vector<Instant>& times = billed[key];
      for (const Record* record : told.yes) {
        const auto found = std::find(times.begin(), times.end(), record->decision->decided_at);
        if (found != times.end()) {
          times.erase(found);
        } else {
          missing(*record);
        }
      }
    }
    for (const auto& [key, times] : billed) {
      const auto told = told_.find(key);
      const std::size_t perhaps = told == told_.end() ? 0 : told->second.perhaps;
      if (times.size() > perhaps) {
        fault(std::to_string(times.size()) + " events of process " +
              std::to_string(std::get<0>(key)) + " for " + std::get<3>(key) + " under " +
              std::get<1>(key) + " are billed and were never told, and " + std::to_string(perhaps) +
              " calls went unanswered");
      }
    }
  }

  void missing(const Record& record) {
    const Life& life = history_.lives.at(record.incarnation);
    const std::string what = "served by " + std::string(to_string(record.decision->rung)) +
                             " and not billed: " + std::to_string(record.question.cost) +
                             " units of process " + std::to_string(record.incarnation) +
                             ", which " +
                             (life.crashed ? "was killed"
                              : life.ended ? "ended"
                                           : "is alive");
    if (record.decision->rung != Rung::store) {
      fault(what);
      return;
    }
    const Nanos bound = history_.scenario.within + 4 * history_.scenario.disks[life.worker];
    const bool last_moments =
        life.crashed && life.ended &&
        record.decided_at + bound +
                history_.stopped(record.incarnation, record.decided_at, *life.ended) >=
            *life.ended;
    if (!last_moments && !life.unwell) {
      fault(what);
      return;
    }
    ++missing_[record.incarnation];
  }

  void may_be_missing(std::uint64_t process, std::uint64_t events) {
    const std::uint64_t waiting = history_.lives.at(process).waiting;
    if (events > waiting) {
      fault(std::to_string(events) + " events of process " + std::to_string(process) +
            " are missing, which ended with " + std::to_string(waiting) + " to write");
    }
  }

  void capped() {
    if (!history_.steps.empty()) return;  // a window whose clock is set begins again
    // By worker, route, tenant and window.
    using Window = std::tuple<std::uint32_t, std::string, std::string, Instant>;
    std::map<Window, std::uint64_t> beyond;
    for (const Entry& entry : history_.billed) {
      if (entry.overspent == 0 || entry.route == route(0, reserved_route()).name) continue;
      beyond[{history_.lives.at(entry.process).worker, entry.route, entry.tenant,
              entry.window_start}] += entry.overspent;
    }
    std::map<std::tuple<std::uint32_t, std::string, std::string>, std::uint64_t> parts;
    bool all_told = true;
    for (const Record& record : history_.records) {
      if (!is_metered(record.question.route)) continue;
      all_told = all_told && !record.void_;
      std::uint64_t& part = parts[{record.question.worker, route(0, record.question.route).name,
                                   std::string(kUsers[record.question.user])}];
      part = std::max(part, record.part_of_cap);
    }
    // Where the division moves, what an unanswered call was served by is not known.
    if (history_.scenario.members && !all_told) return;
    for (const auto& [window, units] : beyond) {
      const auto& [worker, name, tenant, start] = window;
      const std::uint64_t part = parts[{worker, name, tenant}];
      if (units <= part || (part == 0 && !all_told)) continue;
      fault(std::to_string(units) + " units of " + name + " for " + tenant +
            " were served beyond the part of worker " + std::to_string(worker) +
            " in one window, and its part of the cap is " + std::to_string(part));
    }
  }

  struct Told {
    std::vector<const Record*> yes;
    std::size_t perhaps = 0;
  };

  const History& history_;
  std::map<Key, Told> told_;
  std::map<std::uint64_t, std::uint64_t> missing_;  // by process
  std::vector<std::string> faults_;
};

}  // namespace

std::vector<std::string> audit_usage(const History& history) {
  return UsageAudit(history).all();
}

}  // namespace weir::sim
