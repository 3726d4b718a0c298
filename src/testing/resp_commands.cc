#include "testing/resp_commands.h"

#include <algorithm>
#include <charconv>

namespace weir::testing {

std::optional<std::size_t> RespCommands::number(char kind, std::size_t& at) {
  const std::size_t end = buffer_.find("\r\n", at);
  if (end == std::string::npos) return std::nullopt;
  std::size_t value = 0;
  const char* first = buffer_.data() + at + 1;
  const char* last = buffer_.data() + end;
  if (buffer_[at] != kind || std::from_chars(first, last, value).ptr != last) {
    broken_ = true;
    return std::nullopt;
  }
  at = end + 2;
  return value;
}

std::optional<std::vector<std::string>> RespCommands::next() {
  std::size_t at = 0;
  if (broken_ || buffer_.empty()) return std::nullopt;
  const auto count = number('*', at);
  if (!count) return std::nullopt;
  std::vector<std::string> command;
  command.reserve(std::min<std::size_t>(*count, 64));
  for (std::size_t i = 0; i < *count; ++i) {
    if (at >= buffer_.size()) return std::nullopt;
    const auto size = number('$', at);
    if (!size || at + *size + 2 > buffer_.size()) return std::nullopt;
    command.push_back(buffer_.substr(at, *size));
    at += *size + 2;
  }
  buffer_.erase(0, at);
  return command;
}

}  // namespace weir::testing
