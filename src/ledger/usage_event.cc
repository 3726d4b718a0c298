#include "ledger/usage_event.h"

#include <array>

#include "base/hex.h"
#include "base/key_digest.h"

namespace weir::ledger {
namespace {

constexpr char kVersion = 1;
constexpr std::size_t kChecksumAt = 1;
constexpr std::size_t kBodyAt = 5;
constexpr std::uint8_t kOutage = 1;
constexpr unsigned kModeShift = 1;
constexpr std::uint8_t kModeMask = 3;

// Finds damage, not malice: its secret is no secret.
std::uint32_t checksum(std::string_view bytes) {
  static const KeyHasher hasher(
      KeyHasher::Secret{'w', 'e', 'i', 'r', ' ', 'u', 's', 'a', 'g', 'e'});
  return static_cast<std::uint32_t>(hasher(bytes).lo);
}

template <class T>
void put(std::string& out, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i)
    out.push_back(static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i)));
}

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

void put_text(std::string& out, std::string_view text) {
  put_varint(out, text.size());
  out.append(text);
}

// Reads what put() wrote; once something is missing, everything is.
class Bytes {
 public:
  explicit Bytes(std::string_view bytes) : rest_(bytes) {}

  template <class T>
  T take() {
    if (rest_.size() < sizeof(T)) return fail<T>();
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i)
      value |= std::uint64_t{static_cast<unsigned char>(rest_[i])} << (8 * i);
    rest_.remove_prefix(sizeof(T));
    return static_cast<T>(value);
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = take<std::uint8_t>();
      value |= std::uint64_t{byte & 0x7fU} << shift;
      if (!good_ || byte < 0x80) return value;
    }
    return fail<std::uint64_t>();
  }
  std::string_view text() {
    const std::uint64_t length = varint();
    if (length > rest_.size()) {
      good_ = false;
      return {};
    }
    const std::string_view out = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return out;
  }
  bool whole() const { return good_ && rest_.empty(); }

 private:
  template <class T>
  T fail() {
    good_ = false;
    rest_ = {};
    return T{};
  }

  std::string_view rest_;
  bool good_ = true;
};

Error damaged(const char* how) {
  return Error{ErrorCode::invalid_argument, std::string("usage event: ") + how};
}

Instant instant(std::int64_t nanos) {
  return Instant{Nanos(nanos)};
}

}  // namespace

std::string EventId::text() const {
  return hex(hi) + hex(lo);
}

Result<void> encode(const UsageEvent& event, std::string& out) {
  const std::size_t begin = out.size();
  out.push_back(kVersion);
  put<std::uint32_t>(out, 0);
  const auto mode = static_cast<unsigned>(event.mode) << kModeShift;
  out.push_back(static_cast<char>(mode | (event.outage ? kOutage : 0U)));
  put(out, event.id.hi);
  put(out, event.id.lo);
  put(out, event.at.time_since_epoch().count());
  put(out, event.window_start.time_since_epoch().count());
  put_varint(out, static_cast<std::uint64_t>(event.window.count()));
  put_varint(out, event.units);
  put_varint(out, event.overspent);
  for (const std::string_view text : {event.tenant, event.route, event.rule, event.idempotency_key})
    put_text(out, text);
  if (out.size() - begin > kMaxEventBytes) {
    const std::size_t bytes = out.size() - begin;
    out.resize(begin);
    return Error{ErrorCode::invalid_argument, "usage event: " + std::to_string(bytes) +
                                                  " bytes long; allowed: at most " +
                                                  std::to_string(kMaxEventBytes)};
  }
  const std::uint32_t sum = checksum(std::string_view(out).substr(begin + kBodyAt));
  for (std::size_t i = 0; i < 4; ++i)
    out[begin + kChecksumAt + i] = static_cast<char>(sum >> (8 * i));
  return {};
}

Result<UsageEvent> decode(std::string_view bytes) {
  Bytes in(bytes);
  if (in.take<std::uint8_t>() != kVersion) return damaged("of a version that is not known here");
  const auto sum = in.take<std::uint32_t>();
  if (bytes.size() < kBodyAt || sum != checksum(bytes.substr(kBodyAt)))
    return damaged("its checksum does not fit");
  UsageEvent event;
  const auto flags = in.take<std::uint8_t>();
  event.outage = (flags & kOutage) != 0;
  event.mode = static_cast<policy::OverspendMode>((flags >> kModeShift) & kModeMask);
  event.id.hi = in.take<std::uint64_t>();
  event.id.lo = in.take<std::uint64_t>();
  event.at = instant(in.take<std::int64_t>());
  event.window_start = instant(in.take<std::int64_t>());
  event.window = Nanos(static_cast<std::int64_t>(in.varint()));
  event.units = in.varint();
  event.overspent = in.varint();
  event.tenant = in.text();
  event.route = in.text();
  event.rule = in.text();
  event.idempotency_key = in.text();
  if (!in.whole()) return damaged("cut short, or longer than it says");
  return event;
}

}  // namespace weir::ledger
