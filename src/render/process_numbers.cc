#include "render/process_numbers.h"

#include <sys/resource.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace weir::render {
namespace {

std::string first_line_of(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// The word at `index`, counted from 0; 0 where there is none or it is no number.
std::uint64_t number_at(std::string_view words, std::size_t index) {
  for (; index > 0 && !words.empty(); --index) {
    words.remove_prefix(std::min(words.find(' '), words.size() - 1) + 1);
  }
  std::uint64_t value = 0;
  std::from_chars(words.data(), words.data() + words.size(), value);
  return value;
}

Nanos of_ticks(std::uint64_t ticks) {
  const auto per_second = static_cast<std::uint64_t>(sysconf(_SC_CLK_TCK));
  return Nanos(static_cast<std::int64_t>(ticks * (1'000'000'000 / per_second)));
}

Nanos boot_time() {
  std::ifstream file("/proc/stat");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("btime ")) {
      return std::chrono::seconds(static_cast<std::int64_t>(number_at(line, 1)));
    }
  }
  return Nanos::zero();
}

}  // namespace

ProcessNumbers read_process_numbers() {
  ProcessNumbers numbers;
  // proc(5): after the command, which stands in parentheses and may hold anything, comes field 3.
  const std::string stat = first_line_of("/proc/self/stat");
  const std::size_t command_end = stat.rfind(") ");
  if (command_end != std::string::npos) {
    const std::string_view fields = std::string_view(stat).substr(command_end + 2);
    const auto field = [&](std::size_t number) { return number_at(fields, number - 3); };
    numbers.cpu = of_ticks(field(14) + field(15));
    const Nanos boot = boot_time();
    if (boot > Nanos::zero()) numbers.started = boot + of_ticks(field(22));
    numbers.virtual_bytes = field(23);
    numbers.resident_bytes = field(24) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  }
  std::error_code failed;
  std::uint64_t open = 0;
  for (std::filesystem::directory_iterator it("/proc/self/fd", failed), end; !failed && it != end;
       it.increment(failed)) {
    ++open;
  }
  if (!failed && open > 0) numbers.open_fds = open - 1;  // without the one that looked
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) numbers.max_fds = limit.rlim_cur;
  return numbers;
}

}  // namespace weir::render
