#include <benchmark/benchmark.h>

#include <array>
#include <memory>
#include <string>

#include "policy/address.h"
#include "policy/http_view.h"
#include "policy/key.h"
#include "policy/match.h"
#include "weir/policy.h"

namespace weir::policy {
namespace {

void BM_KeyOfOneAddress(benchmark::State& state) {
  const auto digester = ValueDigester::from_text("bench");
  const KeyHasher hasher(KeyHasher::random_secret());
  std::array<char, KeyWriter::kMaxKeyBytes> buffer;
  for (auto _ : state) {
    const Address address = grouped(*Address::parse("192.0.2.7"), 64);
    KeyWriter key(buffer.data(), 0x1234567890abcdef);
    key.value(key_bytes(address), digester);
    benchmark::DoNotOptimize(hasher(key.view()));
  }
}
BENCHMARK(BM_KeyOfOneAddress);

void BM_KeyOfTwoNames(benchmark::State& state) {
  const auto digester = ValueDigester::from_text("bench");
  const KeyHasher hasher(KeyHasher::random_secret());
  std::array<char, KeyWriter::kMaxKeyBytes> buffer;
  for (auto _ : state) {
    KeyWriter key(buffer.data(), 0x1234567890abcdef);
    key.value("account-0123456", digester);
    key.value("ada.lovelace", digester);
    benchmark::DoNotOptimize(hasher(key.view()));
  }
}
BENCHMARK(BM_KeyOfTwoNames);

std::string many_routes(int count) {
  std::string text = "unmatched: allow\nroutes:\n";
  for (int i = 0; i < count; ++i) {
    const std::string n = std::to_string(i);
    text += "  r" + n + ": {match: {method: GET, path: /api/v1/things" + n +
            "/*}, limits: [5 per minute by ip], protects: capacity}\n";
  }
  return text;
}

void BM_MatchOneOfManyRoutes(benchmark::State& state) {
  const auto policy = Policy::parse(many_routes(static_cast<int>(state.range(0)))).value();
  const Matcher& matcher = *policy.model().matcher;
  for (auto _ : state)
    benchmark::DoNotOptimize(matcher.by_request("GET", "api.example", "/api/v1/things7/42"));
}
BENCHMARK(BM_MatchOneOfManyRoutes)->Arg(10)->Arg(10'000);

void BM_TakeARequestApart(benchmark::State& state) {
  const auto policy = Policy::parse(many_routes(10)).value();
  const std::array<Descriptor, 4> headers = {{{"Host", "api.example"},
                                              {"User-Agent", "curl/8.0"},
                                              {"X-API-Key", "0123456789abcdef"},
                                              {"Accept", "*/*"}}};
  const HttpRequest request{.method = "GET",
                            .target = "/api/v1/things7/42?page=2",
                            .peer = "192.0.2.7",
                            .headers = headers};
  const auto view = std::make_unique<HttpView>();
  for (auto _ : state) benchmark::DoNotOptimize(view->take(request, policy.model()));
}
BENCHMARK(BM_TakeARequestApart);

void BM_LoadRoutes(benchmark::State& state) {
  const std::string text = many_routes(static_cast<int>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(Policy::parse(text).has_value());
}
BENCHMARK(BM_LoadRoutes)->Arg(10)->Arg(10'000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace weir::policy
