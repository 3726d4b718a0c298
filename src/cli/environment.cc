#include "cli/environment.h"

#include <algorithm>
#include <string>

namespace weir::cli {
namespace {

// With control bytes as \xHH, as the policy's messages have them: what was typed, or stands in a
// file's name, moves no cursor and colours nothing.
std::string visible(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7f) {
      out += c;
    } else {
      out += "\\x";
      out += kDigits[byte >> 4];
      out += kDigits[byte & 0xf];
    }
  }
  return out;
}

std::string with_masks(const Environment& environment, std::string_view message) {
  std::string out(message);
  for (const auto& [secret, shown] : environment.masked) {
    for (std::size_t at = out.find(secret); at != out.npos; at = out.find(secret, at)) {
      out.replace(at, secret.size(), shown);
      at += shown.size();
    }
  }
  return out;
}

}  // namespace

ExitCode worse(ExitCode a, ExitCode b) {
  const auto weight = [](ExitCode code) {
    switch (code) {
      case ExitCode::as_asked:
        return 0;
      case ExitCode::undecided:
        return 1;
      case ExitCode::answered_no:
        return 2;
      case ExitCode::usage:
        return 3;
    }
    return 3;
  };
  return weight(a) >= weight(b) ? a : b;
}

ExitCode fail(Environment& environment, ExitCode code, std::string_view message) {
  while (message.ends_with('\n')) message.remove_suffix(1);
  const std::string_view first = message.substr(0, message.find('\n'));
  const auto more = std::count(message.begin(), message.end(), '\n');
  environment.err << "weir: " << visible(with_masks(environment, first));
  if (more != 0) environment.err << " (and " << more << " more)";
  environment.err << '\n';
  return code;
}

}  // namespace weir::cli
