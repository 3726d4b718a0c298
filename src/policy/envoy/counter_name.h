#pragma once

#include <cstddef>
#include <cstring>
#include <string_view>

#include "policy/envoy/domain.h"
#include "policy/fault_list.h"

namespace weir::policy {

// The name that envoyproxy/ratelimit gives a counter in Redis, but for the window's start that ends
// it: prefix, domain "_", and for each entry key "_" value "_". Of a descriptor whose values share
// one counter, the pattern stands in the value's place. Nothing is escaped, so that keys and values
// with underscores may share a name: that is that server's way, and here to be kept.
//
// Source:      envoyproxy/ratelimit, src/limiter/cache_key.go.
template <class Entries>
std::size_t counter_name_size(std::string_view prefix, std::string_view domain,
                              const Entries& entries, const DescriptorLimit* limit) {
  std::size_t size = prefix.size() + domain.size() + 1;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const bool shares = limit != nullptr && limit->levels[i].shares;
    size += entries[i].key.size() + 2;
    size += shares ? limit->levels[i].value.size() : entries[i].value.size();
  }
  return size;
}

// Writes it. `limit` is the one that the entries meet; null: one that the request brought.
//
// Requires:    `to` has room for counter_name_size().
template <class Entries>
void write_counter_name(std::string_view prefix, std::string_view domain, const Entries& entries,
                        const DescriptorLimit* limit, char* to) {
  const auto put = [&to](std::string_view text) {
    std::memcpy(to, text.data(), text.size());
    to += text.size();
  };
  put(prefix);
  put(domain);
  *to++ = '_';
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const bool shares = limit != nullptr && limit->levels[i].shares;
    put(entries[i].key);
    *to++ = '_';
    put(shares ? std::string_view(limit->levels[i].value) : std::string_view(entries[i].value));
    *to++ = '_';
  }
}

// Faults for what that server cannot count: only fixed windows, laid from 1970 on.
void check_kept_by_envoyproxy(const Domain& domain, FaultList& faults);

}  // namespace weir::policy
