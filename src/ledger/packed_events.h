#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "ledger/event_batch.h"

namespace weir::ledger {

// The events of one commit in one value: each its length as a varint, then its bytes. A row a
// commit is fewer statements and fewer pages than a row an event.
std::string pack(const EventBatch& events);
std::string pack(std::string_view event);

// What an event of so many bytes takes of a packed value.
std::uint64_t packed_size(std::size_t event_bytes);

// Calls `each` for `count` events of a packed value, in their order. Where it is damaged, those
// that cannot be found any more are empty, which is no event.
void unpack(std::string_view packed, std::size_t count,
            const std::function<void(std::string_view)>& each);

}  // namespace weir::ledger
