#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "drill/load/histogram.h"
#include "drill/load/key_chooser.h"
#include "weir/clock.h"
#include "weir/result.h"

namespace weir::drill {

// What a load run asks of a rate limit service, and how.
struct LoadOptions {
  std::string address;  // host:port, or unix:PATH
  std::uint32_t connections = 4;
  std::uint32_t streams = 100;  // calls open at once on each
  std::optional<double>
      rate;  // calls a second, begun on time whatever comes back; absent: as fast as answers come
  Nanos duration{std::chrono::seconds(10)};
  std::string domain = "bench";
  std::string key = "key";  // of the one entry of a descriptor
  std::uint32_t descriptors = 1;
  std::uint32_t keys = 10'000;
  Distribution distribution = Distribution::uniform;
  // Of a hundred calls, so many ask for one key that nothing else asks for: soon it is over its
  // limit, whatever the others are.
  std::uint32_t over_limit_percent = 0;
  std::optional<Nanos> timeout;  // grpc-timeout
  std::uint64_t seed = 1;
};

struct LoadReport {
  std::uint64_t begun = 0;
  std::uint64_t ok = 0;
  std::uint64_t over_limit = 0;
  std::map<int, std::uint64_t> grpc_errors;  // by status; -1: the stream ended without one
  std::uint64_t unanswered = 0;              // at the end, or with their connection
  Nanos took{0};
  Nanos client_cpu{0};
  Histogram latency;  // of answered calls; with a rate, from when the call was due

  std::uint64_t answered() const noexcept { return latency.count(); }
  // Of the answered calls, the part that was told so; 0 where none was answered.
  double share_over_limit() const noexcept;
  double calls_per_second() const noexcept;
};

// Progress, about twice a second: calls answered, and the time that has passed.
using OnProgress = std::function<void(std::uint64_t answered, Nanos passed)>;

// Runs the load in the calling thread.
//
// Guarantees:  with a rate no wait is hidden: a call that could not begin on time, since the
//              service held all streams, counts from when it was due.
// Errors:      unavailable where the address cannot be connected to, or every connection ended;
//              invalid_argument where the options make no sense.
Result<LoadReport> run_load(const LoadOptions& options, const OnProgress& on_progress = {});

// Asks once, with any descriptors.
struct OneCall {
  int grpc_status = -1;
  std::string response;  // framed
  Nanos took{0};
};
Result<OneCall> call_once(const std::string& address, const std::string& framed_request,
                          Nanos patience);

// The report as one JSON object, and as lines for people.
std::string to_json(const LoadOptions& options, const LoadReport& report);
std::string to_text(const LoadOptions& options, const LoadReport& report);
// The latency distribution as a picture: quantiles on a scale of nines, time on a logarithmic one.
std::string to_svg(const LoadOptions& options, const LoadReport& report);

}  // namespace weir::drill
