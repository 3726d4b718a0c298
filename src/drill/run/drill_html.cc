#include <algorithm>
#include <array>

#include "drill/run/drill.h"
#include "drill/run/in_words.h"
#include "weir/version.h"

namespace weir::drill {
namespace {

constexpr double kWidth = 900;
constexpr double kHeight = 180;

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

std::string one_decimal(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f", value);
  return text.data();
}

// The phases as shaded stretches with their names, and the axis of time.
std::string stage(const DrillReport& report) {
  const double whole = static_cast<double>(report.scenario.length().count());
  std::string out;
  double at = 0;
  for (const Phase& phase : report.scenario.phases) {
    const double width = kWidth * static_cast<double>(phase.length.count()) / whole;
    out += "<rect class=\"" + std::string(phase.is_calm() ? "calm" : "fault") + "\" x=\"" +
           one_decimal(at) + "\" y=\"0\" width=\"" + one_decimal(width) + "\" height=\"" +
           one_decimal(kHeight) + "\"/><text x=\"" + one_decimal(at + 6) + "\" y=\"14\">" +
           escaped(phase.name) + "</text>";
    at += width;
  }
  return out;
}

std::string picture(const DrillReport& report, const std::string& title, const std::string& drawn) {
  return "<figure><figcaption>" + title + "</figcaption><svg viewBox=\"0 0 " + one_decimal(kWidth) +
         " " + one_decimal(kHeight) + "\" role=\"img\" aria-label=\"" + title + "\">" +
         stage(report) + drawn + "</svg></figure>";
}

// Verdicts of each moment, one upon the other.
std::string verdicts(const DrillReport& report) {
  std::uint32_t top = 1;
  const auto sum = [](const DrillReport::Moment& m) {
    return m.allowed + m.limited + m.refused + m.failed;
  };
  for (const auto& moment : report.moments) top = std::max(top, sum(moment));
  const double wide = kWidth / static_cast<double>(report.moments.size());
  const double unit = (kHeight - 24) / top;
  std::string out;
  for (std::size_t i = 0; i < report.moments.size(); ++i) {
    const auto& moment = report.moments[i];
    double base = kHeight;
    const auto part = [&](const char* kind, std::uint32_t count) {
      if (count == 0) return;
      const double high = unit * count;
      base -= high;
      out += "<rect class=\"" + std::string(kind) + "\" x=\"" +
             one_decimal(wide * static_cast<double>(i)) + "\" y=\"" + one_decimal(base) +
             "\" width=\"" + one_decimal(wide) + "\" height=\"" + one_decimal(high) + "\"/>";
    };
    part("allowed", moment.allowed);
    part("limited", moment.limited);
    part("refused", moment.refused);
    part("failed", moment.failed);
  }
  return picture(report, "Calls in a tenth of a second, by verdict; at most " + std::to_string(top),
                 out);
}

std::string line_of(const DrillReport& report, const std::string& title, const char* kind,
                    const std::function<double(const DrillReport::Moment&)>& value) {
  double top = 1e-9;
  for (const auto& moment : report.moments) top = std::max(top, value(moment));
  std::string points;
  for (std::size_t i = 0; i < report.moments.size(); ++i) {
    points +=
        one_decimal(kWidth * static_cast<double>(i) / static_cast<double>(report.moments.size())) +
        "," + one_decimal(kHeight - (kHeight - 24) * value(report.moments[i]) / top) + " ";
  }
  return picture(report, title,
                 "<polyline class=\"" + std::string(kind) + "\" points=\"" + points + "\"/>");
}

std::string table_of(const DrillReport& report, std::size_t phase) {
  std::string out = "<h3>" + escaped(report.scenario.phases[phase].name) + ", " +
                    in_words(report.scenario.phases[phase].length) +
                    "</h3><div class=\"wide\"><table><tr><th>route<th>calls<th>allowed<th>limited"
                    "<th>refused<th>failed<th>p50<th>p99<th>p99.9<th>decided by</tr>";
  for (std::size_t r = 0; r < report.routes.size(); ++r) {
    const Tally& tally = report.tallies[phase][r].all;
    out += "<tr><td>" + escaped(report.routes[r]);
    for (const std::uint64_t n :
         {tally.calls, tally.allowed, tally.limited, tally.refused, tally.failed()}) {
      out += "<td class=\"n\">" + std::to_string(n);
    }
    for (const double part : {0.5, 0.99, 0.999}) {
      out += "<td class=\"n\">" + in_words(tally.latency.quantile(part));
    }
    std::string rungs;
    for (const auto& [rung, count] : tally.rungs) {
      rungs += (rungs.empty() ? "" : ", ") + escaped(rung) + " " + std::to_string(count);
    }
    out += "<td>" + rungs + "</tr>";
  }
  return out + "</table></div>";
}

std::string findings_of(const DrillReport& report) {
  std::string out = "<ul>";
  for (const Expectation& each : report.expectations) {
    out += "<li class=\"" + std::string(each.met ? "met" : "unmet") + "\">" + escaped(each.text) +
           ": " + escaped(each.found);
  }
  out +=
      "</ul><div class=\"wide\"><table><tr><th>route<th>rule<th>most one key was admitted in a "
      "window<th>bound over this scenario<th>with the store<th></tr>";
  for (const BoundCheck& check : report.bounds) {
    out += "<tr><td>" + escaped(check.route) + "<td>" + escaped(check.rule) + "<td class=\"n\">" +
           std::to_string(check.admitted) + "<td class=\"n\">" +
           (check.most ? std::to_string(*check.most) : "unbounded") + "<td class=\"n\">" +
           std::to_string(check.limit) + "<td>" + (check.held() ? "held" : "broken") + "</tr>";
  }
  return out + "</table></div>";
}

constexpr std::string_view kStyle = R"(
:root{color-scheme:light dark;--ink:#1b1f24;--paper:#fff;--faint:#e9ecf0;--fault:#fbe3df;
--allowed:#2f7d4f;--limited:#c9a227;--refused:#b3402e;--failed:#111;--line:#23527c}
@media(prefers-color-scheme:dark){:root{--ink:#e6e8eb;--paper:#14171a;--faint:#23282e;--fault:#3b211d;
--allowed:#5fb37f;--limited:#e0c04f;--refused:#e0705c;--failed:#fff;--line:#7fb2e0}}
body{font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:60rem;
margin:0 auto;padding:1rem}
svg{width:100%;height:auto;background:var(--faint)}svg text{font-size:12px;fill:var(--ink)}
.calm{fill:var(--faint)}.fault{fill:var(--fault)}.allowed{fill:var(--allowed)}
.limited{fill:var(--limited)}.refused{fill:var(--refused)}.failed{fill:var(--failed)}
polyline{fill:none;stroke:var(--line);stroke-width:1.5}
figure{margin:1rem 0}figcaption{font-size:.9rem}
table{border-collapse:collapse;font-size:.9rem}th,td{padding:.2rem .6rem;text-align:left;
border-bottom:1px solid var(--faint)}.n{text-align:right;font-variant-numeric:tabular-nums}
.wide{overflow-x:auto}li.unmet{font-weight:bold;color:var(--refused)}
@media print{body{max-width:none}})";

}  // namespace

std::string to_html(const DrillReport& report) {
  const std::string title = "Drill: " + escaped(report.scenario.name);
  std::string out =
      "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width,initial-scale=1\"><title>" +
      title + "</title><style>" + std::string(kStyle) + "</style><h1>" + title + "</h1><p>" +
      escaped(report.scenario.about) + "<p><strong>" +
      (report.good() ? "Everything was as the policy says." : "Not everything was as expected.") +
      "</strong>" + findings_of(report) + "<h2>What happened</h2>" + verdicts(report) +
      line_of(report, "The slowest answer of each tenth of a second, in proportion", "slow",
              [](const DrillReport::Moment& m) { return static_cast<double>(m.slowest.count()); }) +
      line_of(report, "Answers that were not the store's", "degraded",
              [](const DrillReport::Moment& m) { return static_cast<double>(m.degraded); });
  for (std::size_t i = 0; i < report.scenario.phases.size(); ++i) out += table_of(report, i);
  return out + "<p>weir " + std::string(kVersion) +
         "; times that the breaker opened: " + std::to_string(report.breaker_openings.value_or(0)) +
         "; lines that were logged: " + std::to_string(report.log_lines.value_or(0)) + ".</html>\n";
}

}  // namespace weir::drill
