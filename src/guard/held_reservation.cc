#include "guard/held_reservation.h"

namespace weir::guard {
namespace {

constexpr std::uint64_t kVersion = 1;

void put(std::string& out, std::uint64_t value) {
  for (int shift = 0; shift < 64; shift += 8) out.push_back(static_cast<char>(value >> shift));
}
void put(std::string& out, Instant at) {
  put(out, static_cast<std::uint64_t>(at.time_since_epoch().count()));
}
void put_text(std::string& out, std::string_view text) {
  put(out, text.size());
  out += text;
}

// Once something is missing, everything is.
class Bytes {
 public:
  explicit Bytes(std::string_view bytes) : rest_(bytes) {}
  std::uint64_t number() {
    if (rest_.size() < 8) {
      good_ = false;
      rest_ = {};
      return 0;
    }
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < 8; ++i)
      value |= std::uint64_t{static_cast<unsigned char>(rest_[i])} << (8 * i);
    rest_.remove_prefix(8);
    return value;
  }
  Instant time() { return Instant{Nanos(static_cast<std::int64_t>(number()))}; }
  std::string text() {
    const std::uint64_t size = number();
    if (size > rest_.size()) {
      good_ = false;
      return {};
    }
    std::string out(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return out;
  }
  bool good() const { return good_; }
  bool whole() const { return good_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool good_ = true;
};

}  // namespace

std::string encode(const HeldReservation& held) {
  std::string out;
  put(out, kVersion);
  put(out, held.reserved);
  put(out, held.so_far);
  put(out, held.units);
  put(out, std::uint64_t{held.settled} | std::uint64_t{held.expired} << 1);
  put(out, static_cast<std::uint64_t>(held.terms.expire.count()));
  put(out, static_cast<std::uint64_t>(held.terms.on_expiry.value_or(OnExpiry::full)));
  put(out, held.expires);
  put(out, held.events.size());
  for (const std::string& event : held.events) put_text(out, event);
  put(out, held.charges.size());
  for (const HeldReservation::Charge& charge : held.charges) {
    put(out, charge.identity);
    put(out, charge.stamp);
    put(out, charge.digest.hi);
    put(out, charge.digest.lo);
    put(out, charge.receipt);
    put(out, std::uint64_t{charge.metered} | std::uint64_t{charge.shadow} << 1 |
                 static_cast<std::uint64_t>(charge.interval_ns) << 2);
    put_text(out, charge.key);
  }
  return out;
}

Result<HeldReservation> decode_reservation(std::string_view text) {
  const Error damaged{ErrorCode::invalid_argument, "reservation: damaged"};
  Bytes bytes(text);
  HeldReservation held;
  if (bytes.number() != kVersion) return damaged;
  held.reserved = bytes.number();
  held.so_far = bytes.number();
  held.units = bytes.number();
  const std::uint64_t flags = bytes.number();
  held.settled = (flags & 1) != 0;
  held.expired = (flags & 2) != 0;
  held.terms.expire = Nanos(static_cast<std::int64_t>(bytes.number()));
  const std::uint64_t on_expiry = bytes.number();
  if (on_expiry > static_cast<std::uint64_t>(OnExpiry::zero)) return damaged;
  held.terms.on_expiry = static_cast<OnExpiry>(on_expiry);
  held.expires = bytes.time();
  const std::uint64_t events = bytes.number();
  for (std::uint64_t i = 0; i < events && bytes.good(); ++i) held.events.push_back(bytes.text());
  const std::uint64_t charges = bytes.number();
  for (std::uint64_t i = 0; i < charges && bytes.good(); ++i) {
    HeldReservation::Charge charge;
    charge.identity = bytes.number();
    charge.stamp = static_cast<std::uint32_t>(bytes.number());
    charge.digest = {bytes.number(), bytes.number()};
    charge.receipt = bytes.time();
    const std::uint64_t kind = bytes.number();
    charge.metered = (kind & 1) != 0;
    charge.shadow = (kind & 2) != 0;
    // Earlier versions wrote 0 above the two bits, and read no more of it.
    charge.interval_ns = static_cast<std::int64_t>(kind >> 2);
    charge.key = bytes.text();
    held.charges.push_back(std::move(charge));
  }
  if (!bytes.whole()) return damaged;
  return held;
}

}  // namespace weir::guard
