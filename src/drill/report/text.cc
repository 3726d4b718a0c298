#include <algorithm>
#include <initializer_list>

#include "drill/run/drill.h"
#include "drill/run/in_words.h"

namespace weir::drill {
namespace {

std::string padded(std::string text, std::size_t width, bool right = false) {
  if (text.size() < width) {
    const std::string blanks(width - text.size(), ' ');
    text = right ? blanks + text : text + blanks;
  }
  return text;
}

std::string rungs_of(const Tally& tally) {
  std::string out;
  for (const auto& [rung, count] : tally.rungs) {
    out += (out.empty() ? "" : " ") + rung + ":" + std::to_string(count);
  }
  return out;
}

std::string number(std::uint64_t n) {
  return padded(std::to_string(n), 9, true);
}

std::string times_of(const Tally& tally) {
  return padded(in_words(tally.latency.quantile(0.5)), 12, true) +
         padded(in_words(tally.latency.quantile(0.99)), 12, true);
}

std::string head_of(std::initializer_list<const char*> columns) {
  std::string out = "  " + padded("", 14);
  for (const char* column : columns) out += padded(column, 9, true);
  return out + padded("p50", 12, true) + padded("p99", 12, true);
}

// Of a policy: a row for each route.
std::string routes_of(const DrillReport& report, std::size_t phase) {
  std::string out =
      head_of({"calls", "allowed", "limited", "refused", "failed"}) + "  decided by\n";
  for (std::size_t r = 0; r < report.routes.size(); ++r) {
    const Tally& tally = report.tallies[phase][r].all;
    out += "  " + padded(report.routes[r], 14) + number(tally.calls) + number(tally.allowed) +
           number(tally.limited) + number(tally.refused) + number(tally.failed()) +
           times_of(tally) + "  " + rungs_of(tally) + "\n";
  }
  return out;
}

// Of somebody's API: a row for each kind of caller.
std::string clients_of(const RouteTally& route) {
  std::string out =
      head_of({"calls", "allowed", "429", "503", "5xx", "other", "cut", "late"}) + "\n";
  for (const ClientKind kind : {ClientKind::steady, ClientKind::hostile}) {
    const Tally& tally = route.of(kind);
    out += "  " + padded(std::string(to_string(kind)), 14) + number(tally.calls) +
           number(tally.allowed) + number(tally.limited) + number(tally.refused) +
           number(tally.errors) + number(tally.other) + number(tally.cut) +
           number(tally.timed_out) + times_of(tally) + "\n";
  }
  return out;
}

std::string findings_of(const DrillReport& report) {
  std::size_t width = 0;
  for (const Phase& phase : report.scenario.phases) width = std::max(width, phase.name.size());
  std::string out;
  for (std::size_t i = 0; i < report.findings.size(); ++i) {
    out += "  " + padded(report.scenario.phases[i].name, width + 2) + report.findings[i] + "\n";
  }
  return out;
}

std::string bounds_of(const DrillReport& report) {
  std::string out = "\nmost that one key was admitted in one window\n";
  for (const BoundCheck& check : report.bounds) {
    const std::string most = check.most ? std::to_string(*check.most) : "unbounded";
    out += std::string("  ") + (check.held() ? "ok    " : "BROKEN") + "  " +
           padded(check.route, 14) + padded(std::to_string(check.admitted), 6, true) + " of " +
           most + "  (" + check.rule + (check.spared ? "; masters that did not fail" : "") +
           "; with the store " + std::to_string(check.limit) + ")\n";
  }
  return out;
}

std::string forecast_of(const DrillReport& report) {
  std::string out = "\nwhat explain --outage says, at most (about: what to expect), and what was\n";
  for (const Forecast::Row& row : report.forecast.rows) {
    const char* const unit = row.is_time ? " ms" : "";
    const bool more = row.predicted && row.measured > *row.predicted;
    const char* const mark = row.is_bound ? (more ? "MORE  " : "ok    ")
                             : more       ? "later "
                                          : "      ";
    const std::string predicted =
        row.predicted ? (row.is_bound ? "" : "about ") + std::to_string(*row.predicted) + unit
                      : "unbounded";
    out += std::string("  ") + mark + "  " + padded(row.what, 36) + padded(predicted, 14, true) +
           padded(std::to_string(row.measured) + unit, 14, true) + "\n";
  }
  return out;
}

std::string usage_of(const UsageReport& usage) {
  std::string out = "\nwhat metered rules served, and what is on the bill\n";
  for (const UsageCheck& check : usage.rules) {
    const bool held = check.nothing_lost() && check.nothing_more() && check.capped();
    out += std::string("  ") + (held ? "ok    " : "WRONG ") + "  " + padded(check.route, 14) +
           "acknowledged " + std::to_string(check.served) + ", billed " +
           std::to_string(check.billed) + ", overspent " + std::to_string(check.overspent) +
           ", at most " + std::to_string(check.most_overspent) + " of one key in one window" +
           (check.cap ? ", the cap " + std::to_string(*check.cap) : std::string()) + "  (" +
           check.rule + ")\n";
  }
  return out + "  events: journalled " + std::to_string(usage.journalled) + ", settled " +
         std::to_string(usage.settled) + ", left " + std::to_string(usage.unsettled) +
         ", put aside " + std::to_string(usage.put_aside) + "\n";
}

}  // namespace

std::string to_text(const DrillReport& report) {
  std::string out = report.scenario.name + ": " + report.scenario.about + "\n";
  if (report.cost != 1) out += "each call takes " + std::to_string(report.cost) + " units\n";
  if (!report.findings.empty()) out += report.subject + "\n\n" + findings_of(report);
  for (std::size_t i = 0; i < report.scenario.phases.size(); ++i) {
    const Phase& phase = report.scenario.phases[i];
    out += "\n" + phase.name + ", " + in_words(phase.length) + "\n";
    out += report.findings.empty() ? routes_of(report, i) : clients_of(report.tallies[i][0]);
  }
  if (!report.bounds.empty()) out += bounds_of(report);
  if (!report.forecast.rows.empty()) out += forecast_of(report);
  if (report.usage) out += usage_of(*report.usage);
  out += "\n";
  for (const Expectation& each : report.expectations) {
    out += std::string(each.met ? "ok      " : "FAILED  ") + each.text + ": " + each.found + "\n";
  }
  if (report.breaker_openings && report.log_lines) {
    out += "times that the breaker opened: " + std::to_string(*report.breaker_openings) +
           "; lines that were logged: " + std::to_string(*report.log_lines) + "\n";
  }
  return out;
}

}  // namespace weir::drill
