#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "render/metrics.h"

namespace weir::render {
namespace {

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::set<std::string> found(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  std::set<std::string> names;
  for (std::sregex_iterator it(text.begin(), text.end(), regex), end; it != end; ++it) {
    names.insert((*it)[1]);
  }
  return names;
}

// A name that dashboards and alerts are built on changes only together with its page.
TEST(Metrics, AreTheOnesThatTheReferenceNames) {
  Metrics metrics;
  metrics.read_known_keys_from([] { return std::uint64_t{0}; });
  metrics.read_connections_from([] { return ConnectionNumbers{}; });
  std::string exposition;
  metrics.write(exposition);
  const std::set<std::string> page =
      found(text_of(WEIR_SOURCE_DIR "/docs/reference/metrics.md"), "`((?:weir|process)_[a-z_]+)");
  for (const std::string& name : found(exposition, "# TYPE (\\S+) ")) {
    EXPECT_TRUE(page.contains(name)) << name << " is not in the reference";
  }
  for (const char* name : {"weir_decisions_total",
                           "weir_decision_seconds",
                           "weir_absent_values_total",
                           "weir_unenforced_total",
                           "weir_degraded_seconds_total",
                           "weir_shadow_total",
                           "weir_known_keys",
                           "weir_unmatched_total",
                           "weir_policy_generation",
                           "weir_policy_load_errors_total",
                           "weir_http_rejected_total",
                           "weir_connections",
                           "weir_connections_total",
                           "weir_connections_turned_away_total",
                           "weir_accept_faults_total",
                           "weir_build_info",
                           "process_cpu_seconds_total",
                           "process_start_time_seconds",
                           "process_resident_memory_bytes",
                           "process_virtual_memory_bytes",
                           "process_open_fds",
                           "process_max_fds"}) {
    EXPECT_TRUE(found(exposition, "# TYPE (\\S+) ").contains(name)) << name;
  }
}

}  // namespace
}  // namespace weir::render
