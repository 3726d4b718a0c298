#include "ledger/journal_mark.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <string_view>

namespace weir::ledger {
namespace {

// Two numbers of twenty digits, so that a new line covers the old one.
constexpr std::size_t kBytes = 20 + 1 + 20 + 1;

std::optional<std::uint64_t> number(std::string_view digits) {
  std::uint64_t value = 0;
  const auto [end, fault] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (fault != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

}  // namespace

Result<std::optional<JournalMark::Held>> JournalMark::read(const std::string& journal) {
  const std::string path = path_of(journal);
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0 && errno == ENOENT) return std::optional<Held>();
  if (descriptor < 0)
    return Error{ErrorCode::unavailable, path + ": cannot be opened: " + std::strerror(errno)};
  std::array<char, kBytes + 1> bytes{};
  const ssize_t count = ::pread(descriptor, bytes.data(), bytes.size(), 0);
  ::close(descriptor);
  if (count == 0) return std::optional<Held>();  // made, and never written
  const std::string_view line(bytes.data(), count < 0 ? 0 : static_cast<std::size_t>(count));
  if (line.size() == kBytes && line[20] == ' ' && line[41] == '\n') {
    const auto name = number(line.substr(0, 20));
    const auto last = number(line.substr(21, 20));
    if (name && last) return std::optional(Held{*name, *last});
  }
  return Error{ErrorCode::invalid_argument,
               path + ": damaged; remove it where the journal beside it is whole"};
}

Result<JournalMark> JournalMark::open(const std::string& journal) {
  const std::string path = path_of(journal);
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0640);
  if (descriptor < 0)
    return Error{ErrorCode::unavailable, path + ": cannot be opened: " + std::strerror(errno)};
  return JournalMark(descriptor);
}

JournalMark::~JournalMark() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
}

void JournalMark::note(Held held) noexcept {
  std::array<char, kBytes + 1> line{};
  std::snprintf(line.data(), line.size(), "%020llu %020llu\n",
                static_cast<unsigned long long>(held.journal),
                static_cast<unsigned long long>(held.last));
  (void)!::pwrite(descriptor_, line.data(), kBytes, 0);
}

void JournalMark::sync() noexcept {
  (void)!::fdatasync(descriptor_);
}

}  // namespace weir::ledger
