#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "weir/observer.h"

namespace weir::render {
namespace {

std::string contents_of(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::set<std::string> matches(const std::string& text, const std::regex& pattern) {
  std::set<std::string> found;
  for (std::sregex_iterator it(text.begin(), text.end(), pattern), end; it != end; ++it) {
    found.insert((*it)[1]);
  }
  return found;
}

// Every event that the server's sources write by name, and those of the library.
std::set<std::string> written_events() {
  static const std::regex pattern(R"re(LogLevel::\w+,\s*"([a-z_]+)")re");
  std::set<std::string> events;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(WEIR_SOURCE_DIR "/src/server")) {
    const std::string name = entry.path().filename();
    if (!entry.is_regular_file() || name.find("_test.") != std::string::npos) continue;
    events.merge(matches(contents_of(entry.path()), pattern));
  }
  for (int kind = 0; to_string(static_cast<StoreEvent::Kind>(kind)) != "unknown"; ++kind) {
    events.emplace(to_string(static_cast<StoreEvent::Kind>(kind)));
  }
  return events;
}

// What alerts on logs are built on changes only together with its page.
TEST(LogEvents, AreTheOnesThatTheReferenceNames) {
  std::string page = contents_of(WEIR_SOURCE_DIR "/docs/reference/metrics.md");
  page.erase(0, page.find("| event | level |"));
  std::set<std::string> named;
  static const std::regex row("\\n\\| (`[^|]*) \\|");
  static const std::regex word("`([a-z_]+)`");
  for (const std::string& cell : matches(page, row)) named.merge(matches(cell, word));
  const std::set<std::string> written = written_events();
  EXPECT_GT(written.size(), 20U);
  EXPECT_EQ(named, written);
}

}  // namespace
}  // namespace weir::render
