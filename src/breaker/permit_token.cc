#include "breaker/permit_token.h"

#include <array>
#include <charconv>

#include "base/key_digest.h"
#include "breaker/breaker_core.h"

namespace weir::breaker {
namespace {

constexpr std::string_view kVersion = "2";
constexpr std::size_t kNumbers = 7;

void append(std::string& out, std::uint64_t number) {
  std::array<char, 16> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number, 16).ptr;
  out += '-';
  out.append(digits.data(), end);
}

std::optional<std::array<std::uint64_t, kNumbers>> numbers(std::string_view token) {
  if (!token.starts_with(kVersion)) return std::nullopt;
  token.remove_prefix(kVersion.size());
  std::array<std::uint64_t, kNumbers> out{};
  for (std::uint64_t& number : out) {
    if (!token.starts_with('-')) return std::nullopt;
    token.remove_prefix(1);
    const auto [stop, fault] =
        std::from_chars(token.data(), token.data() + token.size(), number, 16);
    if (fault != std::errc{} || stop == token.data()) return std::nullopt;
    token.remove_prefix(static_cast<std::size_t>(stop - token.data()));
  }
  if (!token.empty()) return std::nullopt;
  return out;
}

// Of all that stands before it.
std::uint64_t seal_of(std::string_view text) {
  static const KeyHasher hasher(KeyHasher::random_secret());
  return hasher(text).lo;
}

}  // namespace

std::string PermitToken::of(const Breaker& breaker, Permit permit) {
  std::string out(kVersion);
  append(out, static_cast<const BreakerCore*>(breaker.gate_)->life());
  append(out, permit.word_);
  append(out, permit.timed_ ? static_cast<std::uint64_t>(permit.started_.time_since_epoch().count())
                            : 0);
  append(out, permit.probe_);
  append(out, permit.slot_);
  append(out, static_cast<std::uint64_t>(permit.kind_) | (permit.timed_ ? 0x10 : 0));
  append(out, seal_of(out));
  permit.gate_ = nullptr;  // its slot stays taken until the token reports, or its deadline
  return out;
}

std::optional<Permit> PermitToken::read(const Breaker& breaker, std::string_view token) {
  const auto found = numbers(token);
  if (!found) return std::nullopt;
  const auto& [life, word, started, probe, slot, kind, seal] = *found;
  if (seal != seal_of(token.substr(0, token.rfind('-')))) return std::nullopt;
  auto* const core = static_cast<BreakerCore*>(breaker.gate_);
  if (life != core->life()) return std::nullopt;
  if ((kind & 0xf) > static_cast<std::uint64_t>(Permit::Kind::fleet) || kind > 0x1f ||
      probe > UINT32_MAX || slot > UINT16_MAX || started > INT64_MAX)
    return std::nullopt;
  Permit permit;
  permit.kind_ = static_cast<Permit::Kind>(kind & 0xf);
  if (permit.kind_ == Permit::Kind::unwatched) return permit;
  permit.gate_ = core;
  permit.word_ = word;
  permit.started_ = MonoTime(Nanos(static_cast<std::int64_t>(started)));
  permit.timed_ = (kind & 0x10) != 0;
  permit.probe_ = static_cast<std::uint32_t>(probe);
  permit.slot_ = static_cast<std::uint16_t>(slot);
  return permit;
}

}  // namespace weir::breaker
