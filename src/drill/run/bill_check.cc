#include "drill/run/bill_check.h"

#include <algorithm>

#include "ledger/journal.h"
#include "ledger/journal_reader.h"
#include "ledger/ledger.h"

namespace weir::drill {
namespace {

bool meters(const policy::Rule& rule) {
  return rule.meter && !rule.shadow;
}

// Reads the ledger's lines into the rules that they are of.
Result<void> read_ledger(const std::string& folder, UsageReport& report) {
  auto ledger = ledger::look_into_ledger("sqlite:" + folder + "/ledger.db");
  if (!ledger) return ledger.error();
  if (auto balanced = (*ledger)->verify(); !balanced) return balanced;
  return (*ledger)->lines([&](const ledger::LedgerLine& line) {
    const auto of = std::find_if(
        report.rules.begin(), report.rules.end(),
        [&](const UsageCheck& each) { return each.route == line.route && each.rule == line.rule; });
    if (of == report.rules.end()) {
      report.of_nobody += line.units;
      return true;
    }
    of->billed += line.units;
    of->overspent += line.overspent;
    of->most_overspent = std::max(of->most_overspent, line.overspent);
    return true;
  });
}

Result<void> read_journal(const std::string& folder, UsageReport& report) {
  auto reader = ledger::JournalReader::open(ledger::Journal::file_in(folder));
  if (!reader) return reader.error();
  if (auto whole = reader->whole(); !whole) return whole;
  if (auto sound = reader->verify(); !sound) return sound;
  const auto counts = reader->counts();
  if (!counts) return counts.error();
  report.journalled = counts->last;
  report.settled = counts->settled;
  report.unsettled = counts->unsettled;
  report.put_aside = counts->quarantined;
  return {};
}

}  // namespace

bool is_metered(const policy::Route& route) {
  return route.when_store_fails == FailurePolicy::settle && !route.shadow &&
         std::any_of(route.rules.begin(), route.rules.end(), meters);
}

bool is_metered(const policy::Model& model) {
  return model.journal && std::any_of(model.routes.begin(), model.routes.end(),
                                      [](const policy::Route& each) { return is_metered(each); });
}

UsageReport check_bill(const policy::Model& model, std::span<const CallsOfRoute> calls,
                       const std::string& folder) {
  UsageReport report;
  for (const CallsOfRoute& of : calls) {
    const auto route =
        std::find_if(model.routes.begin(), model.routes.end(),
                     [&](const policy::Route& each) { return each.name == of.route; });
    if (route == model.routes.end() || !is_metered(*route)) continue;
    for (const policy::Rule& rule : route->rules) {
      if (!meters(rule)) continue;
      UsageCheck check{
          .route = of.route, .rule = rule.name, .served = of.served, .unanswered = of.unanswered};
      if (!route->overspend) check.cap = 0;
      if (route->overspend && route->overspend->mode == policy::OverspendMode::cap)
        check.cap = route->overspend->cap;
      report.rules.push_back(std::move(check));
    }
  }
  for (const auto& read : {read_ledger(folder, report), read_journal(folder, report)}) {
    if (!read && report.fault.empty()) report.fault = read.error().message;
  }
  return report;
}

}  // namespace weir::drill
