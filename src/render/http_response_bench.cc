#include "render/http_response.h"

#include <benchmark/benchmark.h>

namespace weir::render {
namespace {

using namespace std::chrono_literals;

Decision decision(Verdict verdict) {
  Decision d;
  d.verdict = verdict;
  d.rung = Rung::store;
  d.reason = verdict == Verdict::allowed ? Reason::within_limit : Reason::over_limit;
  d.profiles = kHeadersDraft10;
  d.route = "login";
  d.retry_after = 12s;
  d.add({.rule = "5 per minute by ip",
         .limit = 5,
         .period = 60s,
         .burst = 5,
         .fits = verdict == Verdict::allowed,
         .remaining = 4,
         .reset_after = 12s,
         .retry_after = 12s});
  return d;
}

void BM_HttpResponse(benchmark::State& state) {
  const Decision d = decision(state.range(0) == 0 ? Verdict::allowed : Verdict::limited);
  std::string buffer;
  for (auto _ : state) {
    buffer.clear();
    append_http_response(buffer, d, {.date = "Sun, 06 Nov 1994 08:49:37 GMT"});
    benchmark::DoNotOptimize(buffer.data());
  }
  state.SetLabel(state.range(0) == 0 ? "allowed" : "limited, with a problem");
}
BENCHMARK(BM_HttpResponse)->Arg(0)->Arg(1);

}  // namespace
}  // namespace weir::render
