#include "drill/run/machine.h"

#include <sys/utsname.h>

#include <array>
#include <ctime>
#include <fstream>
#include <sstream>
#include <thread>

#include "policy/store_url.h"
#include "weir/clock.h"

namespace weir::drill {

std::string machine_in_words() {
  std::string out;
  utsname name{};
  if (::uname(&name) == 0) {
    out = std::string(name.sysname) + " " + name.release + ", " + name.machine;
  }
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with("model name")) continue;
    out += ", " + line.substr(std::min(line.find(':') + 2, line.size()));
    break;
  }
  return out + ", " + std::to_string(std::thread::hardware_concurrency()) + " cores";
}

std::string time_in_words() {
  const std::time_t now =
      std::chrono::duration_cast<std::chrono::seconds>(Clock::real().now().time_since_epoch())
          .count();
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  std::array<char, 40> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &utc);
  return text.data();
}

std::string without_credentials(const std::string& text) {
  std::istringstream lines(text);
  std::string out;
  std::string line;
  while (std::getline(lines, line)) {
    const std::size_t scheme = line.find("://");
    if (scheme == std::string::npos) {
      out += line + "\n";
      continue;
    }
    std::size_t begin = scheme;
    while (begin > 0 && (std::isalnum(static_cast<unsigned char>(line[begin - 1])) != 0 ||
                         line[begin - 1] == '+')) {
      --begin;
    }
    const std::size_t end = std::min(line.find_first_of(" \t\"',}]", scheme), line.size());
    out += line.substr(0, begin) + policy::redacted(line.substr(begin, end - begin)) +
           line.substr(end) + "\n";
  }
  return out;
}

}  // namespace weir::drill
