#include "ladder/explain_safeguards.h"

#include "policy/duration.h"

namespace weir::ladder {
namespace {

using policy::to_text;

std::string number(std::uint64_t value, std::string_view one, std::string_view many) {
  return std::to_string(value) + " " + std::string(value == 1 ? one : many);
}

std::string opens(const BreakerConfig& config) {
  std::string out = "Opens";
  std::string_view joint = " ";
  if (config.consecutive_failures) {
    out += std::string(joint) + "after " +
           number(*config.consecutive_failures, "failure", "failures in a row");
    joint = ", or ";
  }
  std::string rates;
  if (config.failure_percent)
    rates = std::to_string(*config.failure_percent) + " % of the calls fail";
  if (config.slow_percent)
    rates += (rates.empty() ? "" : " or ") + std::to_string(*config.slow_percent) +
             " % take longer than " + to_text(*config.slow_call);
  if (rates.empty()) return out + ".";
  out += std::string(joint) + "once " + rates + ", of ";
  if (const auto* calls = std::get_if<LastCalls>(&config.window))
    out += "the last " + number(calls->calls, "call", "calls");
  else if (const auto* time = std::get_if<LastTime>(&config.window))
    out += "those of the last " + to_text(time->length);
  return out + " and at least " + std::to_string(config.minimum_calls) + ".";
}

std::string waits(const BreakerConfig& config) {
  std::string out = "Open, no call goes for " + to_text(config.open_wait);
  if (config.max_open_wait > config.open_wait)
    out += ", doubled by each opening that follows up to " + to_text(config.max_open_wait);
  if (config.jitter_percent > 0)
    out += ", give or take " + std::to_string(config.jitter_percent) + " %";
  return out + "; Retry-After makes it longer, up to " + to_text(config.max_retry_after) + ".";
}

std::string probes(const BreakerConfig& config) {
  return "Then at most " + number(config.probes, "call probes", "calls probe") + " it, " +
         std::to_string(config.probes_in_flight) + " at a time; " +
         std::to_string(config.probe_successes) + " must succeed. One that says nothing for " +
         to_text(config.probe_deadline) +
         (config.expired_probe == ExpiredProbe::fails ? " has failed" : " is forgotten") +
         "; without a verdict after " + to_text(config.max_half_open) + " it opens again.";
}

std::string ramps(const BreakerConfig& config) {
  if (!config.ramp) return "After that every call goes.";
  const BreakerRamp& ramp = *config.ramp;
  std::uint64_t steps = 1;
  for (std::uint64_t share = std::uint64_t{0x10000} * ramp.start_percent / 100; share < 0x10000;
       share = share * ramp.growth_percent / 100 + 1)
    ++steps;
  return "After that " + std::to_string(ramp.start_percent) + " % of the calls go, and " +
         std::to_string(ramp.growth_percent) + " % of that with every step of " +
         to_text(ramp.step) + ": all of them after " +
         to_text(ramp.step * static_cast<std::int64_t>(steps - 1)) + ". " +
         number(ramp.strikes, "failed step opens", "failed steps open") + " it again.";
}

// What is given without the store, and what that can come to.
std::string parts(std::uint64_t limit, std::uint32_t workers) {
  std::string out = "Store away: each worker gives out its part of the limit";
  if (workers > 1) {
    const std::uint64_t least = limit / workers;
    const std::uint64_t most = least + (limit % workers != 0 ? 1 : 0);
    out += ", " + (least == most ? std::to_string(most)
                                 : std::to_string(least) + " or " + std::to_string(most));
    out += " of " + std::to_string(limit);
  }
  return out +
         ", less what it gave before; so at most twice the limit is held until leases given before "
         "end. The store is told of them when it is back.";
}

}  // namespace

ExplainedSafeguard explained(const policy::BreakerSpec& spec) {
  ExplainedSafeguard out{.kind = "breaker", .name = spec.name};
  out.facts = {opens(spec.config), waits(spec.config), probes(spec.config), ramps(spec.config)};
  if (spec.shadow)
    out.facts.push_back("In shadow: it counts what it would reject, and rejects nothing.");
  if (!spec.shared) return out;
  out.facts.push_back(
      "Shared by the fleet: of the workers that saw enough calls, 30 % and at least two open it "
      "for "
      "all (one, where only one reports); a verdict that says \"open\" needs no other. The others "
      "see it within 200ms, and its probes are those of the whole fleet.");
  out.facts.push_back(
      "Store away: each worker goes by what it sees itself, probes by itself, and goes with the "
      "fleet "
      "again once the store answers.");
  return out;
}

ExplainedSafeguard explained(const policy::ConcurrencySpec& spec, std::uint32_t workers) {
  ExplainedSafeguard out{.kind = "concurrency", .name = spec.name};
  std::string each;
  for (const policy::Source& source : spec.by)
    each += (each.empty() ? " for each " : " and ") + source.text;
  const std::uint64_t limit = spec.config.limit;
  std::string most = "At most " + std::to_string(limit) + " under way at once" + each +
                     (spec.shared ? ", in the whole fleet" : ", in each worker");
  if (workers > 1 && !spec.shared)
    most +=
        ": " + std::to_string(limit * workers) + " over " + std::to_string(workers) + " workers";
  out.facts.push_back(most + ".");
  out.facts.push_back("A lease ends " + to_text(spec.config.lease) +
                      " after it was last renewed, and " + to_text(spec.config.max_hold) +
                      " after it was given; so a holder that dies frees its units within " +
                      to_text(spec.config.lease) + ".");
  if (spec.shared) out.facts.push_back(parts(limit, workers));
  if (!spec.expect) return out;
  const policy::ExpectedLoad& load = *spec.expect;
  const std::uint64_t mean = load.under_way();
  const std::uint64_t all = spec.shared ? limit : limit * workers;
  out.facts.push_back("Little's law: " + std::to_string(load.per_second) + " calls a second of " +
                      to_text(load.p99) + " are " + std::to_string(mean) +
                      " under way at once; with room for bursts " +
                      std::to_string(mean + (mean * 2 + 9) / 10) + " to " +
                      std::to_string(mean + (mean * 4 + 9) / 10) + ". " +
                      (all < mean ? "The limit is less: at that load it rejects."
                                  : "The limit of " + std::to_string(all) + " holds that."));
  return out;
}

}  // namespace weir::ladder
