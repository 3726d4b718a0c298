#include <algorithm>
#include <string>
#include <string_view>

#include "drill/report/page_parts.h"
#include "drill/run/drill.h"
#include "drill/run/in_words.h"
#include "weir/version.h"

namespace weir::drill {
namespace {

// Most rules that have a picture of their own.
constexpr std::size_t kMostBoundPictures = 12;

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

// JSON that cannot end the element it stands in.
std::string for_script(const std::string& json) {
  std::string out;
  for (const char c : json) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

// A figure, and where in the report it stands: so the two can be compared.
std::string figure(const std::string& at, std::uint64_t value) {
  return "<td class=\"n\" data-figure=\"" + at + "\">" + std::to_string(value) + "</td>";
}

std::string cell(std::string_view text, bool number = false) {
  return std::string(number ? "<td class=\"n\">" : "<td>") + escaped(text) + "</td>";
}

std::string picture(const std::string& id, const std::string& title) {
  return "<figure><figcaption>" + escaped(title) +
         "</figcaption><div class=\"canvas\"><canvas id=\"" + id + "\" role=\"img\" aria-label=\"" +
         escaped(title) + "\"></canvas></div></figure>";
}

std::string pictures_of(const DrillReport& report) {
  std::string out = "<div class=\"charts\">";
  out += picture("verdicts", "What callers were told, each tenth of a second");
  out += picture("latency", "The slowest answer of each tenth of a second");
  if (report.findings.empty()) out += picture("rungs", "Who decided, each tenth of a second");
  for (std::size_t i = 0; i < std::min(report.bounds.size(), kMostBoundPictures); ++i) {
    const BoundCheck& check = report.bounds[i];
    out += picture("bound-" + std::to_string(i),
                   check.route + ", " + check.rule +
                       (check.spared ? ", masters that did not fail" : "") +
                       ": what the busiest key was admitted in its window, by then" +
                       (check.most ? "; the bound is " + std::to_string(*check.most)
                                   : std::string("; nothing bounds it")));
  }
  return out +
         "</div><noscript><p class=\"soft\">The pictures need scripts; every figure is "
         "beneath.</p></noscript>";
}

std::string row_of(const std::string& name, const Tally& tally, const std::string& at,
                   bool of_client, bool with_rungs) {
  std::string out = of_client ? "<tr class=\"client\">" : "<tr>";
  out += cell(name);
  for (const auto& [field, value] : {std::pair{"calls", tally.calls},
                                     {"allowed", tally.allowed},
                                     {"limited", tally.limited},
                                     {"refused", tally.refused},
                                     {"errors", tally.errors},
                                     {"other", tally.other},
                                     {"timed_out", tally.timed_out},
                                     {"cut", tally.cut}}) {
    out += figure(at + "/" + field, value);
  }
  for (const double part : {0.5, 0.99, 0.999}) {
    out += cell(in_words(tally.latency.quantile(part)), true);
  }
  if (!with_rungs) return out + "</tr>";
  std::string rungs;
  for (const auto& [rung, count] : tally.rungs) {
    rungs += (rungs.empty() ? "" : ", ") + rung + " " + std::to_string(count);
  }
  return out + cell(rungs) + "</tr>";
}

std::string phase_of(const DrillReport& report, std::size_t phase) {
  std::string out = "<h3>" + escaped(report.scenario.phases[phase].name) + ", " +
                    in_words(report.scenario.phases[phase].length) + "</h3>";
  if (phase < report.findings.size()) out += "<p>" + escaped(report.findings[phase]) + "</p>";
  out += "<div class=\"wide\"><table><thead><tr><th>route, clients";
  for (const char* head : {"calls", "allowed", "429", "503", "other 5xx", "other", "late", "cut",
                           "p50", "p99", "p99.9"}) {
    out += "<th class=\"n\">" + std::string(head);
  }
  const bool of_weir = report.findings.empty();
  out += std::string(of_weir ? "<th>decided by" : "") + "</tr></thead><tbody>";
  for (std::size_t r = 0; r < report.routes.size(); ++r) {
    const std::string at = "/phases/" + std::to_string(phase) + "/routes/" + std::to_string(r);
    const RouteTally& tally = report.tallies[phase][r];
    out += row_of(report.routes[r], tally.all, at, false, of_weir);
    std::size_t shown = 0;
    for (std::size_t kind = 0; kind < kClientKinds; ++kind) {
      if (tally.kinds[kind].calls == 0) continue;
      out += row_of(std::string(to_string(static_cast<ClientKind>(kind))), tally.kinds[kind],
                    at + "/clients/" + std::to_string(shown++), true, of_weir);
    }
  }
  return out + "</tbody></table></div>";
}

std::string checks_of(const DrillReport& report) {
  std::string out = "<ul class=\"checks\">";
  for (const Expectation& each : report.expectations) {
    out += "<li class=\"" + std::string(each.met ? "met" : "unmet") + "\">" + escaped(each.text) +
           ": " + escaped(each.found) + "</li>";
  }
  return out + "</ul>";
}

std::string bounds_of(const DrillReport& report) {
  if (report.bounds.empty()) return {};
  std::string out =
      "<h2>Admitted, and what may be</h2><div class=\"wide\"><table><thead><tr><th>route<th>rule"
      "<th class=\"n\">most that one key was admitted in a window<th class=\"n\">bound over this "
      "scenario<th class=\"n\">with the store<th>so it</tr></thead><tbody>";
  for (std::size_t i = 0; i < report.bounds.size(); ++i) {
    const BoundCheck& check = report.bounds[i];
    const std::string at = "/bounds/" + std::to_string(i);
    out += "<tr>" + cell(check.route) +
           cell(check.rule + (check.spared ? ", masters that did not fail" : "")) +
           figure(at + "/admitted", check.admitted) +
           (check.most ? figure(at + "/most", *check.most) : cell("unbounded", true)) +
           figure(at + "/limit", check.limit) + cell(check.held() ? "held" : "BROKEN") + "</tr>";
  }
  return out + "</tbody></table></div>";
}

std::string forecast_of(const DrillReport& report) {
  if (report.forecast.rows.empty()) return {};
  std::string out =
      "<h2>Predicted, and measured</h2><p class=\"soft\">What weir explain --outage says of these "
      "faults, at most, beside what was; of how soon they are noticed, what to expect. Times in "
      "milliseconds.</p><div "
      "class=\"wide\"><table><thead><tr><th><th class=\"n\">predicted<th class=\"n\">measured"
      "</tr></thead><tbody>";
  for (std::size_t i = 0; i < report.forecast.rows.size(); ++i) {
    const Forecast::Row& row = report.forecast.rows[i];
    const std::string at = "/forecast/" + std::to_string(i);
    out += "<tr>" + cell(row.what) +
           (row.predicted ? figure(at + "/predicted", *row.predicted) : cell("unbounded", true)) +
           figure(at + "/measured", row.measured) + "</tr>";
  }
  return out + "</tbody></table></div>";
}

std::string usage_of(const DrillReport& report) {
  if (!report.usage) return {};
  const UsageReport& usage = *report.usage;
  std::string out =
      "<h2>Served, and on the bill</h2><p class=\"soft\">Of metered rules, in units: what callers "
      "were told is served, and what the ledger bills; of that, what was beyond this worker's "
      "part.</p><div class=\"wide\"><table><thead><tr><th>route<th>rule";
  for (const char* head : {"acknowledged", "unanswered", "billed", "overspent",
                           "most of one key in a window", "cap on that"}) {
    out += "<th class=\"n\">" + std::string(head);
  }
  out += "</tr></thead><tbody>";
  for (std::size_t i = 0; i < usage.rules.size(); ++i) {
    const UsageCheck& check = usage.rules[i];
    const std::string at = "/usage/rules/" + std::to_string(i);
    out += "<tr>" + cell(check.route) + cell(check.rule) +
           figure(at + "/acknowledged", check.served) +
           figure(at + "/unanswered", check.unanswered) + figure(at + "/billed", check.billed) +
           figure(at + "/overspent", check.overspent) +
           figure(at + "/most_overspent", check.most_overspent) +
           (check.cap ? figure(at + "/cap", *check.cap) : cell("none", true)) + "</tr>";
  }
  out += "</tbody></table></div><div class=\"wide\"><table><thead><tr><th>events";
  for (const char* head : {"journalled", "settled", "left", "put aside"})
    out += "<th class=\"n\">" + std::string(head);
  return out + "</tr></thead><tbody><tr><td>" + figure("/usage/journalled", usage.journalled) +
         figure("/usage/settled", usage.settled) + figure("/usage/unsettled", usage.unsettled) +
         figure("/usage/put_aside", usage.put_aside) + "</tr></tbody></table></div>";
}

std::string findings_of(const DrillReport& report) {
  if (report.findings.empty()) return {};
  std::string out = "<h2>What it does</h2><div class=\"wide\"><table><tbody>";
  for (std::size_t i = 0; i < report.findings.size(); ++i) {
    out +=
        "<tr><th>" + escaped(report.scenario.phases[i].name) + cell(report.findings[i]) + "</tr>";
  }
  return out + "</tbody></table></div>";
}

// Of somebody's API, what it did when its store failed first; else whether all was well.
std::string headline_of(const DrillReport& report) {
  for (std::size_t i = 0; i < report.findings.size(); ++i) {
    if (report.scenario.phases[i].is_calm()) continue;
    return "When its store failed, it " + escaped(report.findings[i]) + ".";
  }
  return report.good() ? "Everything was as expected." : "Not everything was as expected.";
}

std::string foot_of(const DrillReport& report) {
  std::string out;
  if (!report.policy_text.empty()) {
    out += "<details><summary>The policy it ran with</summary><pre>" + escaped(report.policy_text) +
           "</pre></details>";
  }
  out += "<footer><p>weir " + std::string(kVersion);
  if (!report.store_version.empty()) out += "; store: " + escaped(report.store_version);
  out += "; " + escaped(report.machine) + "; " + escaped(report.began) + ".</p>";
  if (report.cost != 1) out += "<p>Each call took " + std::to_string(report.cost) + " units.</p>";
  if (report.breaker_openings && report.log_lines) {
    out += "<p>Times that the breaker opened: " + std::to_string(*report.breaker_openings) +
           "; lines that were logged: " + std::to_string(*report.log_lines) + ".</p>";
  }
  return out + "</footer>";
}

constexpr std::string_view kHead =
    "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
    "content=\"width=device-width, initial-scale=1\"><meta http-equiv=\"Content-Security-Policy\" "
    "content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'\">";

}  // namespace

std::string to_html(const DrillReport& report) {
  const std::string title = "Drill: " + escaped(report.scenario.name);
  std::string out(kHead);
  out += "<title>" + title + "</title><style>\n" + std::string(page_style()) +
         "</style></head><body><h1>" + title + "</h1><p>" + escaped(report.scenario.about) +
         "</p><p class=\"soft\">" + escaped(report.subject) + "</p><p class=\"verdict " +
         (report.good() ? "good\">" : "bad\">") + headline_of(report) + "</p>" +
         findings_of(report) + checks_of(report) + "<h2>What happened</h2>" + pictures_of(report) +
         forecast_of(report) + bounds_of(report) + usage_of(report) + "<h2>In numbers</h2>";
  for (std::size_t i = 0; i < report.scenario.phases.size(); ++i) out += phase_of(report, i);
  out += foot_of(report);
  out += "<script type=\"application/json\" id=\"report\">" + for_script(to_json(report)) +
         "</script>\n<script>" + std::string(chart_script()) + "</script>\n<script>\n" +
         std::string(page_script()) + "</script></body></html>\n";
  return out;
}

}  // namespace weir::drill
