#include "drill/run/tally.h"

namespace weir::drill {

void Tally::add(const HttpOutcome& outcome) {
  ++calls;
  latency.add(outcome.answered - outcome.due);
  if (outcome.end == HttpOutcome::End::timed_out) {
    ++timed_out;
    return;
  }
  if (outcome.end != HttpOutcome::End::answered) {
    ++cut;
    return;
  }
  const int status = outcome.status;
  ++statuses[status];
  if (status >= 200 && status < 400) {
    ++allowed;
  } else if (status == 429) {
    ++limited;
  } else if (status == 503) {
    ++refused;
  } else if (status >= 500) {
    ++errors;
  } else {
    ++other;
  }
}

void Tally::add(const Tally& more) {
  calls += more.calls;
  allowed += more.allowed;
  by_itself += more.by_itself;
  limited += more.limited;
  refused += more.refused;
  errors += more.errors;
  other += more.other;
  timed_out += more.timed_out;
  cut += more.cut;
  for (const auto& [status, count] : more.statuses) statuses[status] += count;
  for (const auto& [rung, count] : more.rungs) rungs[rung] += count;
  latency.merge(more.latency);
}

std::string_view to_string(ClientKind kind) {
  switch (kind) {
    case ClientKind::steady:
      return "well-behaved";
    case ClientKind::bursty:
      return "bursty";
    case ClientKind::retrying:
      return "retrying";
    case ClientKind::hostile:
      return "hostile";
  }
  return "";
}

}  // namespace weir::drill
