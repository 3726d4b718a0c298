#pragma once

#include <charconv>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace weir::store::redis {

// Appends commands to an output buffer as RESP arrays of bulk strings.
class CommandWriter {
 public:
  explicit CommandWriter(std::string& out) : out_(out) {}

  // A command of `count` arguments follows.
  void begin(std::size_t count) { head('*', count); }
  void argument(std::string_view bytes) {
    head('$', bytes.size());
    out_.append(bytes).append("\r\n", 2);
  }
  void number(std::uint64_t value) {
    char digits[20];
    const auto end = std::to_chars(digits, digits + sizeof(digits), value).ptr;
    argument({digits, static_cast<std::size_t>(end - digits)});
  }
  void command(std::initializer_list<std::string_view> arguments) {
    begin(arguments.size());
    for (const std::string_view bytes : arguments) argument(bytes);
  }

 private:
  void head(char kind, std::size_t count) {
    char line[24];
    line[0] = kind;
    char* end = std::to_chars(line + 1, line + sizeof(line) - 2, count).ptr;
    *end++ = '\r';
    *end++ = '\n';
    out_.append(line, static_cast<std::size_t>(end - line));
  }

  std::string& out_;
};

}  // namespace weir::store::redis
