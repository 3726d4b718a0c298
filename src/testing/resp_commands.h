#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weir::testing {

// RESP2's text of one string, as a server replies it.
inline std::string bulk(std::string_view text) {
  return '$' + std::to_string(text.size()) + "\r\n" + std::string(text) + "\r\n";
}

// The server's side of RESP2: cuts a stream of bytes into commands.
class RespCommands {
 public:
  void feed(std::string_view bytes) { buffer_.append(bytes); }
  // The next whole command, if it is there.
  std::optional<std::vector<std::string>> next();
  // Whether what came was not RESP.
  bool broken() const noexcept { return broken_; }

 private:
  std::optional<std::size_t> number(char kind, std::size_t& at);

  std::string buffer_;
  bool broken_ = false;
};

}  // namespace weir::testing
