#include "sim/request_audit.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace weir::sim {
namespace {

using Entry = SimLedger::Entry;
using What = Stayed::Try::What;

// Of all that may be right for a record.
bool told_yes(const Record& record) {
  return !record.void_ && record.decision && record.decision->allowed();
}

class RequestAudit {
 public:
  explicit RequestAudit(const History& history) : history_(history) {}

  std::vector<std::string> all() {
    named();
    reserved();
    return std::move(faults_);
  }

 private:
  void fault(std::string text) {
    if (faults_.size() < 8) faults_.push_back("requests: " + std::move(text));
  }
  const Life& life_of(const Record& record) const { return history_.lives.at(record.incarnation); }

  // It was not told yes, and may be on the bill all the same.
  bool perhaps(const Record& record) const {
    if (record.void_ || !record.decision) return true;
    if (record.decision->allowed()) return false;
    const Rung rung = record.decision->rung;
    const Life& life = life_of(record);
    return (life.crashed || life.unwell) && (rung == Rung::journal || rung == Rung::share);
  }
  // It was told yes before that was on the disk, and the disk may never have had it.
  bool may_be_missing(const Record& record) const {
    if (record.decision->rung != Rung::store) return false;
    const Life& life = life_of(record);
    const Nanos bound = history_.scenario.within + 4 * history_.scenario.disks[life.worker];
    return life.unwell ||
           (life.crashed && life.ended &&
            record.decided_at + bound +
                    history_.stopped(record.incarnation, record.decided_at, *life.ended) >=
                *life.ended);
  }

  // ---- Requests that name themselves.

  void named() {
    std::map<std::uint32_t, std::vector<const Record*>> asked;
    for (const Record& record : history_.records) {
      if (record.question.name != 0) asked[record.question.name].push_back(&record);
    }
    std::uint64_t of_several = 0;  // asks under names of several requests
    for (const auto& [name, records] : asked) {
      one_name(name, records);
      replayed(name, records);
      const bool several = std::any_of(records.begin(), records.end(), [&](const Record* each) {
        return each->question.cost != records.front()->question.cost;
      });
      of_several += several ? records.size() : 0;
    }
    if (history_.put_aside > of_several)
      fault(std::to_string(history_.put_aside) + " events were put aside");
    keys_and_bill();
  }

  // Who was asked when under a name, and what each was told.
  std::string story(const std::vector<const Record*>& records) const {
    std::string text;
    for (const Record* each : records) {
      const auto ms = [this](MonoTime time) {
        return std::to_string((time - history_.began) / std::chrono::milliseconds(1)) + "ms";
      };
      text += "; " + ms(each->asked_at) + " process " + std::to_string(each->incarnation) +
              " of worker " + std::to_string(each->question.worker) + ", cost " +
              std::to_string(each->question.cost) + ": ";
      if (each->void_ || !each->decision) {
        text += "no answer";
        continue;
      }
      text += std::string(to_string(each->decision->verdict)) + " by " +
              std::string(to_string(each->decision->rung)) +
              (each->decision->replayed ? ", replayed" : "") + " at " + ms(each->decided_at);
    }
    return text;
  }

  void one_name(std::uint32_t name, const std::vector<const Record*>& records) {
    const SimLedger::Key* key = nullptr;
    for (const SimLedger::Key& each : history_.keys) {
      if (each.key == name_of(name)) key = &each;
    }
    const bool acknowledged = std::any_of(records.begin(), records.end(), [&](const Record* each) {
      return told_yes(*each) && !may_be_missing(*each);
    });
    if (acknowledged && key == nullptr)
      fault(name_of(name) + " was told yes, and is not billed" + story(records));
    if (key == nullptr) return;
    const bool of_it = std::any_of(records.begin(), records.end(), [&](const Record* each) {
      return each->question.cost == key->units && kUsers[each->question.user] == key->tenant &&
             (told_yes(*each) || perhaps(*each));
    });
    if (!of_it)
      fault(name_of(name) + " is billed as " + std::to_string(key->units) +
            " units, and nobody was told so" + story(records));
  }

  void replayed(std::uint32_t name, const std::vector<const Record*>& records) {
    for (const Record* before : records) {
      if (!told_yes(*before)) continue;
      for (const Record* after : records) {
        if (!after->decision || after->void_ || after->asked_at <= before->decided_at) continue;
        const bool same = after->question.cost == before->question.cost;
        const Decision& decision = *after->decision;
        const bool again = decision.allowed() && decision.replayed;
        if (after->incarnation == before->incarnation) {
          if (same && !again)
            fault(name_of(name) + " was told yes, and later something else" + story(records));
          if (!same && decision.reason != Reason::key_reused)
            fault(name_of(name) + " was another request, and is no conflict" + story(records));
        } else if (after->question.worker == before->question.worker &&
                   after->incarnation > before->incarnation &&
                   before->decision->rung != Rung::store && decision.rung != Rung::store) {
          // From its journal, which it had read before it could record anything.
          if (same && decision.allowed() && !again)
            fault(name_of(name) + " was served again after a restart" + story(records));
        } else if (before->decision->rung == Rung::store && decision.rung == Rung::store &&
                   decision.allowed() && !again && !history_.scenario.loses_data()) {
          fault(name_of(name) + " was admitted by the store twice" + story(records));
        }
      }
    }
  }

  // Every billed entry of the route is one name's, and every name is billed once.
  void keys_and_bill() {
    using One = std::tuple<std::string, Instant, std::uint64_t>;
    std::multiset<One> billed, known;
    for (const Entry& entry : history_.billed) {
      if (entry.route == route(0, named_route()).name && entry.billed > 0)
        billed.emplace(entry.tenant, entry.at, entry.units);
    }
    // What is asked of the route in the end has no name, and costs nothing.
    for (const SimLedger::Key& key : history_.keys) known.emplace(key.tenant, key.at, key.units);
    if (billed != known) {
      fault(std::to_string(billed.size()) + " named requests are billed, and the ledger knows " +
            std::to_string(known.size()) + " names");
    }
  }

  // ---- Reservations.

  using Place = std::tuple<std::uint64_t, std::string, Instant>;

  void reserved() {
    std::map<Place, std::vector<std::uint64_t>> billed;
    for (const Entry& entry : history_.billed) {
      if (entry.route == route(0, reserved_route()).name)
        billed[{entry.process, entry.tenant, entry.at}].push_back(entry.units);
    }
    std::map<Place, std::vector<std::set<std::uint64_t>>> right;
    for (const Stayed& stayed : history_.stayed) {
      const Record& record = history_.records[stayed.record];
      right[{record.incarnation, std::string(kUsers[record.question.user]),
             record.decision->decided_at}]
          .push_back(may_come_to(stayed));
      known(stayed);
    }
    for (auto& [place, ends] : right) {
      // Those of which there is least doubt first.
      std::sort(ends.begin(), ends.end(),
                [](const auto& one, const auto& other) { return one.size() < other.size(); });
      for (const std::set<std::uint64_t>& end : ends) came_to(billed[place], end);
    }
    never_told(billed);
  }

  // What one that was told may be billed as; 0: it is on no bill.
  std::set<std::uint64_t> may_come_to(const Stayed& stayed) const {
    std::set<std::uint64_t> ends;
    for (const Stayed::Try& one : stayed.tries) {
      if (one.what == What::yes) return {one.units};
      if (one.what == What::void_ || one.what == What::asked) ends.insert(one.units);
    }
    const Record& record = history_.records[stayed.record];
    const Stay& plan = history_.scenario.stays[*record.question.stay];
    switch (*plan.terms.on_expiry) {
      case OnExpiry::full:
        ends.insert(record.question.cost);
        break;
      case OnExpiry::zero:
        ends.insert(0);
        break;
      case OnExpiry::last_heartbeat:
        ends.insert(stayed.beats.empty() ? 0 : stayed.beats.back());
        // A heartbeat is on the disk soon after.
        if (!history_.scenario.replaces_somebody()) break;
        ends.insert(0);
        ends.insert(stayed.beats.begin(), stayed.beats.end());
        break;
    }
    if (!history_.there[record.question.worker]) ends.insert(0);
    return ends;
  }

  void came_to(std::vector<std::uint64_t>& billed, const std::set<std::uint64_t>& right) {
    const auto found = std::find_if(billed.begin(), billed.end(),
                                    [&](std::uint64_t units) { return right.contains(units); });
    if (found != billed.end()) {
      billed.erase(found);
      return;
    }
    if (right.contains(0)) return;
    fault("a reservation that was to come to " + std::to_string(*right.begin()) +
          " units is billed as " +
          (billed.empty() ? "nothing" : std::to_string(billed.front()) + " units"));
  }

  void known(const Stayed& stayed) {
    bool settled = false;
    for (const Stayed::Try& one : stayed.tries) {
      if (one.what == What::unknown) fault("a reservation that was told is not known any more");
      if (settled && one.what == What::other) fault("one that was settled ended otherwise as well");
      if (settled && one.what == What::yes && !one.repeated)
        fault("a reservation was settled twice");
      settled = settled || one.what == What::yes;
    }
  }

  // What is left is of those whose name nobody heard, and of whom nobody can say what they were
  // told.
  void never_told(const std::map<Place, std::vector<std::uint64_t>>& billed) {
    std::map<std::pair<std::uint64_t, std::string>, std::size_t> left;
    for (const auto& [place, units] : billed)
      left[{std::get<0>(place), std::get<1>(place)}] += units.size();
    for (const Record& record : history_.records) {
      if (!record.question.stay || !perhaps(record)) continue;
      std::size_t& count = left[{record.incarnation, std::string(kUsers[record.question.user])}];
      if (count > 0) --count;
    }
    for (const auto& [whose, count] : left) {
      if (count > 0)
        fault(std::to_string(count) + " reservations of process " + std::to_string(whose.first) +
              " for " + whose.second + " are billed that nobody was told, or twice");
    }
  }

  const History& history_;
  std::vector<std::string> faults_;
};

}  // namespace

std::vector<std::string> audit_requests(const History& history) {
  return RequestAudit(history).all();
}

}  // namespace weir::sim
