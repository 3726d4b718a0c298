#include "render/breaker_json.h"

#include <chrono>

#include "render/text.h"

namespace weir::render {
namespace {

using std::chrono::milliseconds;

// Members of one object, one after the other.
class Members {
 public:
  explicit Members(std::string& out) : out_(out) { out_ += '{'; }
  void number(std::string_view name, std::uint64_t value) {
    begin(name);
    append_number(out_, value);
  }
  void text(std::string_view name, std::string_view value) {
    begin(name);
    append_json_string(out_, value);
  }
  void flag(std::string_view name, bool value) {
    begin(name);
    out_ += value ? "true" : "false";
  }
  // Rounded up: who waits that long has waited long enough.
  void milliseconds_of(std::string_view name, Nanos value) {
    number(name, ceil_to(value, milliseconds(1)));
  }
  void end() { out_ += '}'; }

 private:
  void begin(std::string_view name) {
    out_ += first_ ? "\"" : ",\"";
    out_ += name;
    out_ += "\":";
    first_ = false;
  }
  std::string& out_;
  bool first_ = true;
};

// "shared":{"store":"answers","state":"open",…}
void append_fleet(std::string& out, const BreakerSnapshot& breaker) {
  Members members(out);
  members.text("store", breaker.tie == FleetTie::follows ? "answers" : "away");
  members.text("decides", breaker.tie == FleetTie::follows ? "fleet" : "this worker");
  members.text("changes", breaker.pushed ? "pushed" : "polled");
  if (breaker.fleet) {
    const FleetRecord& fleet = *breaker.fleet;
    members.text("state", to_string(fleet.state));
    members.text("mode", to_string(fleet.mode));
    members.number("epoch", fleet.epoch);
    members.number("round", fleet.round);
    members.number("workers_reporting", fleet.reporting);
    members.number("workers_bad", fleet.bad);
    members.number("probes_in_flight", fleet.probes_in_flight);
    members.number("read_ms_ago", static_cast<std::uint64_t>(fleet.age / milliseconds(1)));
  }
  members.number("told_total", breaker.store_writes);
  members.number("lost_total", breaker.store_lost);
  members.end();
}

}  // namespace

void append_breaker(std::string& out, const BreakerSnapshot& breaker) {
  Members members(out);
  members.text("breaker", breaker.name);
  members.text("state", to_string(breaker.state));
  members.text("mode", to_string(breaker.mode));
  if (!breaker.mode_by.empty()) members.text("mode_by", breaker.mode_by);
  if (!breaker.mode_reason.empty()) members.text("mode_reason", breaker.mode_reason);
  if (breaker.mode != BreakerMode::automatic)
    members.milliseconds_of("mode_for_ms", breaker.mode_for);
  if (breaker.mode_left) members.milliseconds_of("mode_left_ms", *breaker.mode_left);
  members.number("generation", breaker.generation);
  members.milliseconds_of("for_ms", breaker.for_time);
  members.number("share_percent", breaker.share_percent);
  if (breaker.state == BreakerState::open && breaker.mode != BreakerMode::forced_open) {
    members.flag("probe_due", breaker.probe_due);
    members.milliseconds_of("until_probe_ms", breaker.until_probe);
  }
  if (breaker.state == BreakerState::half_open)
    members.number("probes_in_flight", breaker.probes_in_flight);
  members.number("calls", breaker.calls);
  members.number("failures", breaker.failures);
  members.number("slow", breaker.slow);
  if (breaker.state == BreakerState::closed)
    members.number("consecutive_failures", breaker.consecutive_failures);
  members.number("openings_in_a_row", breaker.openings_in_a_row);
  members.number("ok_total", breaker.ok);
  members.number("failure_total", breaker.failed);
  members.number("slow_total", breaker.slow_calls);
  members.number("ignored_total", breaker.ignored);
  members.number("cancelled_total", breaker.cancelled);
  members.number("local_reject_total", breaker.local_rejects);
  members.number("late_total", breaker.late);
  members.number("expired_probes_total", breaker.expired_probes);
  members.number("rejected_total", breaker.rejected);
  members.number("would_reject_total", breaker.would_reject);
  members.number("opened_total", breaker.opened);
  if (breaker.tie != FleetTie::none) {
    out += ",\"shared\":";
    append_fleet(out, breaker);
  }
  members.end();
}

void append_concurrency(std::string& out, const ConcurrencySnapshot& limit) {
  Members members(out);
  members.text("name", limit.name);
  members.number("limit", limit.limit);
  members.number("held", limit.held);
  members.number("leases", limit.leases);
  members.number("waiting", limit.waiting);
  members.number("given_total", limit.leases_given);
  members.number("expired_total", limit.leases_expired);
  members.number("refused_total", limit.refused);
  if (limit.shared) {
    members.text("store", limit.store_answers ? "answers" : "away");
    members.number("given_without_store_total", limit.given_without_store);
    members.number("untold", limit.untold);
  }
  members.end();
}

void append_rejected(std::string& out, const Rejected& rejected) {
  Members members(out);
  members.flag("admitted", false);
  members.text("reason", to_string(rejected.reason));
  if (rejected.retry_after) members.milliseconds_of("retry_after_ms", *rejected.retry_after);
  members.end();
}

namespace {

// What may be asked instead of what never can be given; empty: the same, later.
std::string_view allowed_instead(LeaseRefusal refusal) noexcept {
  switch (refusal) {
    case LeaseRefusal::invalid_id:
      return "id: 16 to 64 letters, digits, '-' and '_', or none";
    case LeaseRefusal::never_fits:
      return "weight: from 1 to the limit";
    case LeaseRefusal::held_otherwise:
      return "id: a lease has it, of another weight; take another id, or that weight";
    default:
      return {};
  }
}

}  // namespace

void append_lease(std::string& out, const LeaseAnswer& answer) {
  Members members(out);
  members.flag("granted", answer.lease.has_value());
  if (!answer.lease) {
    members.text("reason", to_string(answer.refusal));
    if (const std::string_view allowed = allowed_instead(answer.refusal); !allowed.empty())
      members.text("detail", allowed);
    if (answer.retry_after) members.milliseconds_of("retry_after_ms", *answer.retry_after);
    return members.end();
  }
  members.text("id", answer.lease->id);
  members.number("fence", answer.lease->fence);
  members.number("weight", answer.lease->weight);
  // Rounded down: who renews in that time is in time.
  members.number("expires_in_ms",
                 static_cast<std::uint64_t>(answer.lease->expires_in / milliseconds(1)));
  if (answer.lease->repeated) members.flag("repeated", true);
  if (answer.lease->without_store) members.flag("without_store", true);
  members.end();
}

}  // namespace weir::render
