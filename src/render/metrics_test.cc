#include "render/metrics.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <thread>

namespace weir::render {
namespace {

using namespace std::chrono_literals;

std::string text_of(const Metrics& metrics) {
  std::string out;
  metrics.write(out);
  return out;
}

// The samples of an exposition: everything before the last space of a line, and the number.
std::map<std::string, double> samples_of(const std::string& text) {
  std::map<std::string, double> samples;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    if (line.starts_with('#')) continue;
    const std::size_t space = line.rfind(' ');
    const bool fresh = samples.emplace(line.substr(0, space), std::stod(line.substr(space))).second;
    EXPECT_TRUE(fresh) << "twice: " << line;
  }
  return samples;
}

TEST(Metrics, AddUpToAllowedPlusLimitedPlusRefused) {
  Metrics metrics;
  std::vector<Metrics::RouteSlot> slots = {Metrics::kNoRoute};
  slots.reserve(71);
  for (int i = 0; i < 70; ++i) slots.push_back(metrics.route_slot("route" + std::to_string(i)));
  constexpr int kThreads = 4;
  constexpr int kEach = 20'000;
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::minstd_rand random(static_cast<unsigned>(t + 1));
      for (int i = 0; i < kEach; ++i) {
        metrics.record(slots[random() % slots.size()], static_cast<Verdict>(random() % 3),
                       static_cast<Rung>(random() % 5), Nanos(random() % 5'000'000'000));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(metrics.decisions(), std::uint64_t{kThreads} * kEach);
  EXPECT_EQ(metrics.decisions(Verdict::allowed) + metrics.decisions(Verdict::limited) +
                metrics.decisions(Verdict::refused),
            metrics.decisions());
  double in_text = 0;
  double timed = 0;
  for (const auto& [name, value] : samples_of(text_of(metrics))) {
    if (name.starts_with("weir_decisions_total{")) in_text += value;
    if (name.starts_with("weir_decision_seconds_count{")) timed += value;
  }
  EXPECT_EQ(in_text, kThreads * kEach);
  EXPECT_EQ(timed, kThreads * kEach);
}

TEST(Metrics, CountOnWhenAReloadDropsARouteAndBringsItBack) {
  Metrics metrics;
  const auto login = metrics.route_slot("login");
  metrics.record(login, Verdict::allowed, Rung::store);
  const auto search = metrics.route_slot("search");  // the next policy, without login
  metrics.record(search, Verdict::limited, Rung::store);
  EXPECT_EQ(metrics.route_slot("login"), login);
  metrics.record(metrics.route_slot("login"), Verdict::allowed, Rung::store);
  const auto samples = samples_of(text_of(metrics));
  EXPECT_EQ(samples.at(R"(weir_decisions_total{route="login",verdict="allowed",rung="store"})"), 2);
  EXPECT_EQ(samples.at(R"(weir_decisions_total{route="search",verdict="limited",rung="store"})"),
            1);
}

TEST(Metrics, ShowARoutesSeriesBeforeItsFirstRequest) {
  Metrics metrics;
  (void)metrics.route_slot("login");
  const auto samples = samples_of(text_of(metrics));
  for (const char* rest :
       {R"(verdict="allowed",rung="store"})", R"(verdict="limited",rung="store"})",
        R"(verdict="refused",rung="policy"})"}) {
    EXPECT_EQ(samples.at(std::string(R"(weir_decisions_total{route="login",)") + rest), 0);
  }
  EXPECT_FALSE(
      samples.contains(R"(weir_decisions_total{route="login",verdict="allowed",rung="share"})"));
}

TEST(Metrics, HoldNoMoreRoutesThanStated) {
  Metrics metrics;
  for (std::size_t i = 1; i < Metrics::kMaxRoutes; ++i) {
    ASSERT_EQ(metrics.route_slot(std::to_string(i)), i);
  }
  EXPECT_EQ(metrics.route_slot("one too many"), Metrics::kNoRoute);
  EXPECT_EQ(metrics.route_slot("7"), 7U);
  metrics.record(metrics.route_slot("one too many"), Verdict::allowed, Rung::store);
  EXPECT_EQ(metrics.decisions(), 1U) << "counted all the same";
}

TEST(Metrics, PutDurationsIntoTheRightBuckets) {
  struct Row {
    Nanos took;
    const char* first_bucket;
  };
  for (const Row& row :
       {Row{-5ns, "0.0000001"}, Row{0ns, "0.0000001"}, Row{100ns, "0.0000001"},
        Row{101ns, "0.00000025"}, Row{127ns, "0.00000025"}, Row{128ns, "0.00000025"},
        Row{1us, "0.000001"}, Row{1001ns, "0.0000025"}, Row{20ms, "0.025"}, Row{2500ms, "2.5"},
        Row{2501ms, "+Inf"}, Row{Nanos::max(), "+Inf"}}) {
    Metrics metrics;
    metrics.record(Metrics::kNoRoute, Verdict::allowed, Rung::store, row.took);
    double before = 0;
    std::string found;
    const std::string text = text_of(metrics);
    for (std::size_t at = text.find("weir_decision_seconds_bucket{"); at != std::string::npos;
         at = text.find("weir_decision_seconds_bucket{", at + 1)) {
      const std::string line = text.substr(at, text.find('\n', at) - at);
      const double count = std::stod(line.substr(line.rfind(' ')));
      if (count > before) found = line;
      before = count;
    }
    EXPECT_NE(found.find("le=\"" + std::string(row.first_bucket) + "\""), std::string::npos)
        << row.took.count() << " ns: " << found;
  }
}

TEST(Metrics, CountWhatElseHappens) {
  Metrics metrics;
  const auto login = metrics.route_slot("login");
  metrics.count_absent(login);
  metrics.count_shadow(login, true);
  metrics.count_shadow(login, false);
  metrics.count_shadow(login, false);
  metrics.count_unenforced(login);
  metrics.count_unmatched();
  metrics.count_policy_load_error();
  metrics.count_http_rejection(HttpBound::body_bytes);
  metrics.set_policy_generation(3);
  const auto id = metrics.add_source([](Exposition& exposition) {
    exposition.family("weir_lanes", Exposition::Type::gauge, "Lanes.");
    exposition.sample(std::uint64_t{17});
  });
  const auto samples = samples_of(text_of(metrics));
  EXPECT_EQ(samples.at(R"(weir_absent_values_total{route="login"})"), 1);
  EXPECT_EQ(samples.at(R"(weir_shadow_total{route="login",verdict="allowed"})"), 1);
  EXPECT_EQ(samples.at(R"(weir_shadow_total{route="login",verdict="limited"})"), 2);
  EXPECT_EQ(samples.at(R"(weir_unenforced_total{route="login"})"), 1);
  EXPECT_EQ(samples.at("weir_unmatched_total"), 1);
  EXPECT_EQ(samples.at("weir_policy_load_errors_total"), 1);
  EXPECT_EQ(samples.at("weir_policy_generation"), 3);
  EXPECT_EQ(samples.at(R"(weir_http_rejected_total{bound="body_bytes"})"), 1);
  EXPECT_EQ(samples.at(R"(weir_http_rejected_total{bound="idle_time"})"), 0);
  EXPECT_EQ(samples.at("weir_lanes"), 17);
  EXPECT_FALSE(samples.contains("weir_known_keys")) << "nobody said";
  metrics.remove_source(id);
  metrics.read_known_keys_from([] { return std::uint64_t{23}; });
  metrics.read_connections_from([] {
    return ConnectionNumbers{.open = 1, .accepted = 2, .turned_away = 3, .accept_faults = 4};
  });
  const auto later = samples_of(text_of(metrics));
  EXPECT_FALSE(later.contains("weir_lanes"));
  EXPECT_EQ(later.at("weir_known_keys"), 23);
  EXPECT_EQ(later.at("weir_connections"), 1);
  EXPECT_EQ(later.at("weir_connections_total"), 2);
  EXPECT_EQ(later.at("weir_connections_turned_away_total"), 3);
  EXPECT_EQ(later.at("weir_accept_faults_total"), 4);
}

TEST(Metrics, DescribeTheProcess) {
  const auto samples = samples_of(text_of(Metrics()));
  EXPECT_GT(samples.at("process_resident_memory_bytes"), 100'000);
  EXPECT_GT(samples.at("process_open_fds"), 0);
  EXPECT_GE(samples.at("process_max_fds"), samples.at("process_open_fds"));
  EXPECT_GE(samples.at("process_cpu_seconds_total"), 0);
  EXPECT_GT(samples.at("process_start_time_seconds"), 1'600'000'000);
}

TEST(Metrics, EscapeWhateverANameHolds) {
  Metrics metrics;
  (void)metrics.route_slot("a.b:c|d#e \"q\" \\ \nweir_evil 1");
  (void)metrics.route_slot("not utf-8: \xff\xc0");
  const std::string text = text_of(metrics);
  EXPECT_NE(text.find(R"(route="a.b:c|d#e \"q\" \\ \nweir_evil 1")"), std::string::npos);
  EXPECT_NE(text.find("route=\"not utf-8: \xef\xbf\xbd\xef\xbf\xbd\""), std::string::npos);
  EXPECT_EQ(text.find("\nweir_evil"), std::string::npos) << "a value ended its line";
}

// What Prometheus itself says of the names, types, help texts and escapes.
TEST(Metrics, ArePassedByPromtool) {
  if (std::system("command -v promtool >/dev/null 2>&1") != 0) {
    GTEST_SKIP() << "promtool is not installed (Debian package prometheus)";
  }
  Metrics metrics;
  const auto slot = metrics.route_slot("a.b:c|d#e \"q\" \\ \nx\ry \xff");
  for (const Verdict verdict : {Verdict::allowed, Verdict::limited, Verdict::refused}) {
    for (const Rung rung :
         {Rung::store, Rung::known, Rung::share, Rung::policy, Rung::journal, Rung::fallback}) {
      metrics.record(slot, verdict, rung, 3us);
      metrics.record(Metrics::kNoRoute, verdict, rung);
    }
  }
  metrics.count_shadow(slot, false);
  std::FILE* promtool = popen("promtool check metrics >&2", "w");
  ASSERT_NE(promtool, nullptr);
  const std::string text = text_of(metrics);
  EXPECT_EQ(std::fwrite(text.data(), 1, text.size(), promtool), text.size());
  EXPECT_EQ(pclose(promtool), 0) << text;
}

TEST(Exposition, SaysHistogramsCumulatively) {
  std::string out;
  Exposition exposition(out);
  exposition.family("waits_seconds", Exposition::Type::histogram, "Waits.");
  const Nanos bounds[] = {1ms, 1s};
  const std::uint64_t counts[] = {2, 0, 3};
  exposition.histogram({"kind", "a"}, bounds, counts, 1500ms);
  EXPECT_EQ(out,
            "# HELP waits_seconds Waits.\n"
            "# TYPE waits_seconds histogram\n"
            "waits_seconds_bucket{kind=\"a\",le=\"0.001\"} 2\n"
            "waits_seconds_bucket{kind=\"a\",le=\"1\"} 2\n"
            "waits_seconds_bucket{kind=\"a\",le=\"+Inf\"} 5\n"
            "waits_seconds_sum{kind=\"a\"} 1.5\n"
            "waits_seconds_count{kind=\"a\"} 5\n");
}

TEST(Metrics, CountsEachSecondWithoutTheStoreOnce) {
  Metrics metrics;
  const Metrics::RouteSlot login = metrics.route_slot("login");
  const MonoTime start{std::chrono::seconds(100)};
  for (int i = 0; i < 25; ++i) {
    metrics.count_degraded(login, Rung::share, start + i * std::chrono::milliseconds(100));
  }
  metrics.count_degraded(login, Rung::policy, start);
  std::string text;
  metrics.write(text);
  EXPECT_NE(text.find("weir_degraded_seconds_total{route=\"login\",rung=\"share\"} 3\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("weir_degraded_seconds_total{route=\"login\",rung=\"policy\"} 1\n"),
            std::string::npos);
}

}  // namespace
}  // namespace weir::render
