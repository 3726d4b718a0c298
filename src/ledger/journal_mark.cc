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

// Three numbers of twenty digits, so that a new line covers the old one; before marks knew of
// notes, two.
constexpr std::size_t kNumber = 20 + 1;
constexpr std::size_t kBytes = 3 * kNumber;
constexpr std::size_t kOlderBytes = 2 * kNumber;

std::optional<std::uint64_t> number(std::string_view digits) {
  std::uint64_t value = 0;
  const auto [end, fault] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (fault != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

std::optional<JournalMark::Held> held_of(std::string_view line) {
  if ((line.size() != kBytes && line.size() != kOlderBytes) || line.back() != '\n')
    return std::nullopt;
  std::array<std::uint64_t, 3> numbers{};
  for (std::size_t i = 0; i * kNumber < line.size(); ++i) {
    const std::string_view piece = line.substr(i * kNumber, kNumber);
    const auto one = number(piece.substr(0, kNumber - 1));
    const bool last = (i + 1) * kNumber == line.size();
    if (!one || piece.back() != (last ? '\n' : ' ')) return std::nullopt;
    numbers[i] = *one;
  }
  return JournalMark::Held{.journal = numbers[0], .last = numbers[1], .notes = numbers[2]};
}

}  // namespace

std::string JournalMark::Held::words() const {
  if (last > 0) return std::to_string(last) + (last == 1 ? " event" : " events");
  return "reservations, keys of requests or overspend of " + std::to_string(notes) +
         (notes == 1 ? " commit" : " commits");
}

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
  if (const auto held = held_of(line)) return held;
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
  std::snprintf(line.data(), line.size(), "%020llu %020llu %020llu\n",
                static_cast<unsigned long long>(held.journal),
                static_cast<unsigned long long>(held.last),
                static_cast<unsigned long long>(held.notes));
  (void)!::pwrite(descriptor_, line.data(), kBytes, 0);
}

void JournalMark::sync() noexcept {
  (void)!::fdatasync(descriptor_);
}

}  // namespace weir::ledger
