#include "render/breaker_metrics.h"

#include <utility>

namespace weir::render {
namespace {

using Type = Exposition::Type;

constexpr BreakerState kStates[] = {BreakerState::closed, BreakerState::open,
                                    BreakerState::half_open, BreakerState::recovering};

// A family with one number of each breaker, or limit.
template <class Snapshot, class Number>
void each(Exposition& out, const std::vector<Snapshot>& all, std::string_view label,
          std::string_view name, Type type, std::string_view help, Number number) {
  out.family(name, type, help);
  for (const Snapshot& one : all) out.sample({{label, one.name}}, std::uint64_t{number(one)});
}

void write_calls(Exposition& out, const std::vector<BreakerSnapshot>& breakers) {
  out.family("weir_circuit_calls_total", Type::counter,
             "Calls that were reported, by how they ended; late ones did not vote.");
  for (const BreakerSnapshot& one : breakers) {
    const std::pair<std::string_view, std::uint64_t> outcomes[] = {
        {"ok", one.ok},           {"failure", one.failed},      {"slow", one.slow_calls},
        {"ignored", one.ignored}, {"cancelled", one.cancelled}, {"local_reject", one.local_rejects},
        {"late", one.late}};
    for (const auto& [outcome, count] : outcomes)
      out.sample({{"breaker", one.name}, {"outcome", outcome}}, count);
  }
}

// Of those alone that the fleet shares.
void write_shared(Exposition& out, const std::vector<BreakerSnapshot>& breakers) {
  std::vector<BreakerSnapshot> shared;
  for (const BreakerSnapshot& one : breakers)
    if (one.tie != FleetTie::none) shared.push_back(one);
  if (shared.empty()) return;
  using Shot = const BreakerSnapshot&;
  each(out, shared, "breaker", "weir_circuit_store_answers", Type::gauge,
       "1 while a shared breaker goes with its fleet, 0 while it goes by this worker alone.",
       [](Shot one) { return std::uint64_t{one.tie == FleetTie::follows}; });
  out.family("weir_circuit_fleet_state", Type::gauge,
             "1 for the state that the store holds for the fleet, as last read.");
  for (const BreakerSnapshot& one : shared)
    for (const BreakerState state : kStates)
      out.sample(
          {{"breaker", one.name}, {"state", to_string(state)}},
          std::uint64_t{one.fleet ? one.fleet->state == state : state == BreakerState::closed});
  each(out, shared, "breaker", "weir_circuit_store_told_total", Type::counter,
       "Votes, verdicts, modes and asks for a probe that the store took.",
       [](Shot one) { return one.store_writes; });
  each(out, shared, "breaker", "weir_circuit_store_lost_total", Type::counter,
       "Those that it could not be told in time.", [](Shot one) { return one.store_lost; });
}

}  // namespace

void write_breakers(Exposition& out, const std::vector<BreakerSnapshot>& breakers) {
  if (breakers.empty()) return;
  out.family("weir_circuit_state", Type::gauge, "1 for the state that a breaker is in.");
  for (const BreakerSnapshot& one : breakers)
    for (const BreakerState state : kStates)
      out.sample({{"breaker", one.name}, {"state", to_string(state)}},
                 std::uint64_t{one.state == state});
  out.family("weir_circuit_mode", Type::gauge,
             "1, with what an operator or the policy set: automatic, forced_open, forced_closed, "
             "disabled or shadow.");
  for (const BreakerSnapshot& one : breakers)
    out.sample({{"breaker", one.name}, {"mode", to_string(one.mode)}}, std::uint64_t{1});
  const auto family = [&](std::string_view name, Type type, std::string_view help, auto number) {
    each(out, breakers, "breaker", name, type, help, number);
  };
  using Shot = const BreakerSnapshot&;
  family("weir_circuit_share_percent", Type::gauge, "Part of the calls that goes, in percent.",
         [](Shot one) { return std::uint64_t{one.share_percent}; });
  write_calls(out, breakers);
  family("weir_circuit_rejected_total", Type::counter, "Calls that were not let through.",
         [](Shot one) { return one.rejected; });
  family("weir_circuit_would_reject_total", Type::counter,
         "Calls that shadow mode let through and automatic mode would not have.",
         [](Shot one) { return one.would_reject; });
  family("weir_circuit_opened_total", Type::counter, "How often a breaker opened.",
         [](Shot one) { return one.opened; });
  family("weir_circuit_expired_probes_total", Type::counter,
         "Probes that reported nothing by their deadline.",
         [](Shot one) { return one.expired_probes; });
  write_shared(out, breakers);
}

namespace {

void write_shared_leases(Exposition& out, const std::vector<ConcurrencySnapshot>& shared) {
  using Shot = const ConcurrencySnapshot&;
  each(out, shared, "name", "weir_lease_store_answers", Type::gauge,
       "1 while leases of a shared limit are the store's, 0 while they are of this worker's part.",
       [](Shot one) { return std::uint64_t{one.store_answers}; });
  each(out, shared, "name", "weir_lease_given_without_store_total", Type::counter,
       "Leases that were given from this worker's part.",
       [](Shot one) { return one.given_without_store; });
  each(out, shared, "name", "weir_lease_untold", Type::gauge,
       "Leases that changed without the store, and are still to be told it.",
       [](Shot one) { return one.untold; });
}

}  // namespace

void write_concurrency(Exposition& out, const std::vector<ConcurrencySnapshot>& limits) {
  if (limits.empty()) return;
  const auto family = [&](std::string_view name, Type type, std::string_view help, auto number) {
    each(out, limits, "name", name, type, help, number);
  };
  using Shot = const ConcurrencySnapshot&;
  family("weir_lease_limit", Type::gauge, "Units that may be held at once, of one key.",
         [](Shot one) { return std::uint64_t{one.limit}; });
  family("weir_lease_held", Type::gauge, "Units that are held now, of all keys.",
         [](Shot one) { return one.held; });
  family("weir_lease_standing", Type::gauge, "Leases that stand now.",
         [](Shot one) { return one.leases; });
  family("weir_lease_waiting", Type::gauge, "Callers that wait for units.",
         [](Shot one) { return one.waiting; });
  family("weir_lease_given_total", Type::counter, "Leases that were given.",
         [](Shot one) { return one.leases_given; });
  family("weir_lease_expired_total", Type::counter,
         "Leases that ended because nobody renewed or released them in time.",
         [](Shot one) { return one.leases_expired; });
  family("weir_lease_absent_values_total", Type::counter,
         "Asks that lacked a value which the limit counts by; they share one counter.",
         [](Shot one) { return one.absent_values; });
  std::vector<ConcurrencySnapshot> shared;
  for (Shot one : limits)
    if (one.shared) shared.push_back(one);
  if (!shared.empty()) write_shared_leases(out, shared);
  family("weir_lease_refused_total", Type::counter, "Times that units were not given.",
         [](Shot one) { return one.refused; });
}

}  // namespace weir::render
