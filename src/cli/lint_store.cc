#include "cli/lint_store.h"

#include <cstdio>

#include "guard/openable.h"
#include "policy/envoy/name_trial.h"
#include "policy/store_url.h"
#include "render/text.h"
#include "store/redis/inspect.h"
#include "weir/clock.h"

namespace weir::cli {

namespace redis = store::redis;

namespace {

std::string milliseconds(Nanos length) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f",
                std::chrono::duration<double, std::milli>(length).count());
  return text;
}

std::string role_of(const redis::StoreReport& report) {
  if (report.masters > 0) {
    return std::to_string(report.masters) + (report.masters == 1 ? " master" : " masters");
  }
  if (report.info_denied) return "role unknown";
  return report.replica ? "replica" : "primary";
}

// "7.0.15, primary, 1 replica, maxmemory-policy noeviction, clock 0.2 ms ahead, answered in 1.4 ms"
std::string words_of(const redis::StoreReport& report, Nanos took) {
  std::string out = report.version.empty() ? "version unknown" : report.version;
  out += ", " + role_of(report);
  if (report.masters == 0 && report.replicas && *report.replicas > 0) {
    out += ", " + std::to_string(*report.replicas) +
           (*report.replicas == 1 ? " replica" : " replicas");
  }
  if (!report.maxmemory_policy.empty()) {
    out += report.maxmemory == 0 ? ", no memory limit"
                                 : ", maxmemory-policy " + report.maxmemory_policy;
  }
  out += ", clock " + milliseconds(std::chrono::abs(report.skew)) + " ms " +
         (report.skew < Nanos{0} ? "behind" : "ahead");
  return out + ", answered in " + milliseconds(took) + " ms";
}

std::string json_of(const std::string& path, const std::string& field, const std::string& url,
                    const redis::StoreReport& report, Nanos took) {
  std::string out = "{\"file\":";
  render::append_json_string(out, path);
  const auto text = [&](std::string_view member, std::string_view value) {
    if (value.empty()) return;
    out += member;
    render::append_json_string(out, value);
  };
  text(",\"field\":", field);
  text(",\"store\":", url);
  text(",\"version\":", report.version);
  if (!report.info_denied) text(",\"role\":", role_of(report));
  if (report.replicas) out += ",\"replicas\":" + std::to_string(*report.replicas);
  text(",\"maxmemory_policy\":", report.maxmemory_policy);
  if (!report.maxmemory_policy.empty())
    out += ",\"maxmemory_bytes\":" + std::to_string(report.maxmemory);
  out += ",\"clock_skew_ms\":" + milliseconds(report.skew);
  return out + ",\"took_ms\":" + milliseconds(took) + "}";
}

class Printer {
 public:
  Printer(Environment& environment, const std::string& path, const std::string& field, bool json)
      : environment_(environment), path_(path), field_(field), json_(json) {}

  void say(bool warning, const std::string& problem) {
    ++(warning ? verdict.warnings : verdict.faults);
    if (!json_) {
      environment_.out << path_ << ": " << field_ << ": " << (warning ? "warning: " : "") << problem
                       << '\n';
      return;
    }
    std::string out = "{\"file\":";
    render::append_json_string(out, path_);
    out += ",\"field\":";
    render::append_json_string(out, field_);
    out += ",\"problem\":";
    render::append_json_string(out, problem);
    out += warning ? ",\"severity\":\"warning\"}" : ",\"severity\":\"fault\"}";
    environment_.out << out << '\n';
  }

  void describe(const std::string& url, const redis::StoreReport& report, Nanos took) {
    if (json_) {
      environment_.out << json_of(path_, field_, url, report, took) << '\n';
    } else {
      environment_.out << path_ << ": " << field_ << " " << url << ": " << words_of(report, took)
                       << '\n';
    }
  }

  StoreVerdict verdict;

 private:
  Environment& environment_;
  const std::string& path_;
  const std::string field_;
  const bool json_;
};

// `name` is what sentences call it.
StoreVerdict look_at(Environment& environment, const std::string& path,
                     const policy::StoreSpec& spec, const policy::Model& model,
                     const std::string& field, const std::string& name, bool json) {
  Printer printer(environment, path, field, json);
  const auto url = policy::parse_store_url(spec.url);
  if (url && url->kind == policy::StoreKind::memory) return {};  // there is nobody to ask
  const std::string shown = policy::redacted(spec.url);
  const auto found = redis::inspect(spec, policy::name_trials(model), Clock::real());
  if (!found) {
    printer.say(false, found.error().message);
    return printer.verdict;
  }
  if (found->report) {
    printer.describe(shown, *found->report, found->took);
    for (const redis::StoreFault& fault : found->report->faults) {
      printer.say(fault.severity == redis::Severity::warning, fault.text);
    }
  }
  if (found->error == nullptr || printer.verdict.faults != 0) return printer.verdict;
  const std::string why = shown + ": " + redis::told(*found->error, found->error_text);
  // What somebody has to change is a fault; what may be over in a moment was not found out.
  if (found->error->error_class == redis::ErrorClass::misconfigured) {
    printer.say(false, why);
  } else {
    printer.verdict.not_asked = name;
    (void)fail(environment, ExitCode::undecided, name + " " + why);
  }
  return printer.verdict;
}

}  // namespace

StoreVerdict lint_store(Environment& environment, const std::string& path,
                        const policy::Model& model, bool json) {
  const policy::StoreSpec& spec = model.store;
  StoreVerdict verdict = look_at(environment, path, spec, model, "store", "store", json);
  if (!spec.fallback_url) return verdict;
  const StoreVerdict second = look_at(environment, path, guard::fallback_spec(spec), model,
                                      "store.fallback", "fallback store", json);
  verdict.faults += second.faults;
  verdict.warnings += second.warnings;
  if (verdict.not_asked.empty()) {
    verdict.not_asked = second.not_asked;
  } else if (!second.not_asked.empty()) {
    verdict.not_asked = "stores";
  }
  return verdict;
}

}  // namespace weir::cli
