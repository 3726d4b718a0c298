#include "ledger/packed_events.h"

#include <cstdint>

namespace weir::ledger {
namespace {

void append(std::string_view event, std::string& out) {
  std::uint64_t length = event.size();
  for (; length >= 0x80; length >>= 7) out.push_back(static_cast<char>(length | 0x80));
  out.push_back(static_cast<char>(length));
  out.append(event);
}

// Takes one event off the front; empty, with all the rest, where it is not whole.
std::string_view take(std::string_view& rest) {
  std::uint64_t length = 0;
  std::size_t at = 0;
  for (unsigned shift = 0; at < rest.size() && shift < 35; shift += 7) {
    const auto byte = static_cast<unsigned char>(rest[at++]);
    length |= std::uint64_t{byte & 0x7fU} << shift;
    if (byte >= 0x80) continue;
    if (length > rest.size() - at) break;
    const std::string_view event = rest.substr(at, length);
    rest.remove_prefix(at + length);
    return event;
  }
  rest = {};
  return {};
}

}  // namespace

std::string pack(const EventBatch& events) {
  std::string out;
  out.reserve(events.bytes() + 2 * events.size());
  for (std::size_t i = 0; i < events.size(); ++i) append(events[i], out);
  return out;
}

std::string pack(std::string_view event) {
  std::string out;
  append(event, out);
  return out;
}

std::uint64_t packed_size(std::size_t event_bytes) {
  std::uint64_t size = event_bytes + 1;
  for (std::size_t rest = event_bytes; rest >= 0x80; rest >>= 7) ++size;
  return size;
}

void unpack(std::string_view packed, std::size_t count,
            const std::function<void(std::string_view)>& each) {
  for (std::size_t i = 0; i < count; ++i) each(take(packed));
}

}  // namespace weir::ledger
