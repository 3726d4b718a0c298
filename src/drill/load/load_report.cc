#include <array>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "drill/load/rls_load.h"

namespace weir::drill {
namespace {

using std::chrono::duration;

constexpr std::array<double, 7> kQuantiles = {0.5, 0.75, 0.9, 0.99, 0.999, 0.9999, 1};
constexpr std::array<const char*, 7> kQuantileNames = {"p50",   "p75",    "p90", "p99",
                                                       "p99.9", "p99.99", "max"};

double us(Nanos time) {
  return duration<double, std::micro>(time).count();
}

// Three significant digits, with the unit that suits.
std::string time_text(Nanos time) {
  std::array<char, 32> text{};
  const double value = us(time);
  if (value < 1'000) {
    std::snprintf(text.data(), text.size(), "%.3g us", value);
  } else if (value < 1'000'000) {
    std::snprintf(text.data(), text.size(), "%.3g ms", value / 1'000);
  } else {
    std::snprintf(text.data(), text.size(), "%.3g s", value / 1'000'000);
  }
  return text.data();
}

std::string number_text(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.0f", value);
  return text.data();
}

std::string percent_text(double share) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f %%", share * 100);
  return text.data();
}

std::string load_text(const LoadOptions& options) {
  return std::to_string(options.connections) + " connections x " + std::to_string(options.streams) +
         " streams, " + (options.rate ? number_text(*options.rate) + " calls/s" : "closed loop") +
         ", " + std::to_string(options.keys) + " keys " +
         std::string(to_string(options.distribution)) + ", " + std::to_string(options.descriptors) +
         (options.descriptors == 1 ? " descriptor" : " descriptors") +
         (options.over_limit_percent == 0
              ? ""
              : ", " + std::to_string(options.over_limit_percent) + " % to one key");
}

}  // namespace

std::string to_json(const LoadOptions& options, const LoadReport& report) {
  nlohmann::ordered_json out = {
      {"address", options.address},
      {"connections", options.connections},
      {"streams", options.streams},
      {"loop", options.rate ? "open" : "closed"},
      {"descriptors", options.descriptors},
      {"keys", options.keys},
      {"distribution", to_string(options.distribution)},
      {"seconds", duration<double>(report.took).count()},
      {"begun", report.begun},
      {"ok", report.ok},
      {"over_limit", report.over_limit},
      {"share_over_limit", report.share_over_limit()},
      {"unanswered", report.unanswered},
      {"calls_per_second", report.calls_per_second()},
      {"client_cpu_us_per_call",
       report.answered() == 0 ? 0 : us(report.client_cpu) / static_cast<double>(report.answered())},
  };
  if (options.rate) out["rate"] = *options.rate;
  nlohmann::ordered_json errors = nlohmann::ordered_json::object();
  for (const auto& [status, count] : report.grpc_errors) errors[std::to_string(status)] = count;
  out["grpc_errors"] = errors;
  nlohmann::ordered_json latency = {{"mean_us", us(report.latency.mean())}};
  for (std::size_t i = 0; i < kQuantiles.size(); ++i) {
    latency[std::string(kQuantileNames[i]) + "_us"] = us(report.latency.quantile(kQuantiles[i]));
  }
  out["latency"] = latency;
  return out.dump();
}

std::string to_text(const LoadOptions& options, const LoadReport& report) {
  std::string out = load_text(options) + "\n";
  out += "  " + number_text(report.calls_per_second()) + " calls/s for " + time_text(report.took) +
         ": " + std::to_string(report.ok) + " ok, " + std::to_string(report.over_limit) +
         " over limit (" + percent_text(report.share_over_limit()) + ")";
  std::uint64_t errors = 0;
  for (const auto& [status, count] : report.grpc_errors) errors += count;
  out += ", " + std::to_string(errors) + " errors, " + std::to_string(report.unanswered) +
         " unanswered\n ";
  for (std::size_t i = 0; i < kQuantiles.size(); ++i) {
    out += std::string(" ") + kQuantileNames[i] + " " +
           time_text(report.latency.quantile(kQuantiles[i]));
    if (i + 1 < kQuantiles.size()) out += ",";
  }
  return out + "\n";
}

std::string to_svg(const LoadOptions& options, const LoadReport& report) {
  constexpr double kWidth = 860;
  constexpr double kHeight = 420;
  constexpr double kLeft = 80;
  constexpr double kRight = 30;
  constexpr double kTop = 50;
  constexpr double kBottom = 50;
  constexpr double kNines = 5;  // 0 to 99.999 %
  const double least = std::max(1.0, us(report.latency.quantile(0.001)));
  const double most = std::max(least * 10, us(report.latency.max()));
  const double first = std::floor(std::log10(least));
  const double last = std::ceil(std::log10(most));
  const auto x = [&](double nines) { return kLeft + (kWidth - kLeft - kRight) * nines / kNines; };
  const auto y = [&](double micros) {
    const double part = (std::log10(std::max(1e-3, micros)) - first) / std::max(1.0, last - first);
    return kHeight - kBottom - (kHeight - kTop - kBottom) * part;
  };
  const auto text = [](double value) { return std::to_string(value); };
  std::string out =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 860 420\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n"
      "<title>Latency by quantile</title>\n"
      "<rect width=\"860\" height=\"420\" fill=\"white\"/>\n"
      "<text x=\"80\" y=\"24\" font-size=\"14\">Latency by quantile</text>\n"
      "<text x=\"80\" y=\"40\" fill=\"#555\">" +
      load_text(options) + ": " + number_text(report.calls_per_second()) + " calls/s</text>\n";
  for (double power = first; power <= last; ++power) {
    const double micros = std::pow(10.0, power);
    out += "<line x1=\"80\" x2=\"830\" y1=\"" + text(y(micros)) + "\" y2=\"" + text(y(micros)) +
           "\" stroke=\"#ddd\"/>\n<text x=\"72\" y=\"" + text(y(micros) + 4) +
           "\" text-anchor=\"end\">" + time_text(Nanos(static_cast<std::int64_t>(micros * 1'000))) +
           "</text>\n";
  }
  const std::array<const char*, 6> names = {"0", "90 %", "99 %", "99.9 %", "99.99 %", "99.999 %"};
  for (std::size_t i = 0; i < names.size(); ++i) {
    const double at = x(static_cast<double>(i));
    out += "<line x1=\"" + text(at) + "\" x2=\"" + text(at) +
           "\" y1=\"50\" y2=\"370\" stroke=\"#eee\"/>\n<text x=\"" + text(at) +
           "\" y=\"390\" text-anchor=\"middle\">" + names[i] + "</text>\n";
  }
  out += "<polyline fill=\"none\" stroke=\"#1f5fa8\" stroke-width=\"2\" points=\"";
  for (double nines = 0; nines <= kNines; nines += 0.05) {
    const double quantile = 1 - std::pow(10.0, -nines);
    out += text(x(nines)) + "," + text(y(us(report.latency.quantile(quantile)))) + " ";
  }
  return out + "\"/>\n</svg>\n";
}

}  // namespace weir::drill
