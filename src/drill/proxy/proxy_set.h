#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "drill/proxy/fault_proxy.h"
#include "drill/proxy/toxic.h"
#include "weir/result.h"

namespace weir::drill {

// Fault proxies by name, each with its toxics.
//
// Threads:     one at a time; each proxy has one of its own besides.
// Errors:      not_found (no such proxy or toxic); failed_precondition (there is one already);
//              resource_exhausted; invalid_argument (what was given); unavailable (an address that
//              cannot be had).
class ProxySet {
 public:
  static constexpr std::size_t kMostProxies = 128;
  static constexpr std::size_t kMostToxics = 64;
  static constexpr std::size_t kMostNameBytes = 128;
  static constexpr std::uint32_t kMostLoops = 4;  // of one proxy

  struct Entry {
    std::string name;
    std::string listen;  // with the port that was had
    std::string upstream;
    bool enabled = true;
    std::vector<Toxic> toxics;
    std::unique_ptr<FaultProxy> proxy;  // while it is enabled
  };
  // What a proxy is to become; what is absent stays.
  struct Change {
    std::optional<std::string> listen;
    std::optional<std::string> upstream;
    std::optional<bool> enabled;
  };

  const std::map<std::string, Entry, std::less<>>& all() const noexcept { return entries_; }
  Result<const Entry*> find(std::string_view name) const;

  Result<void> add(Entry entry);
  Result<void> change(std::string_view name, const Change& change);
  Result<void> remove(std::string_view name);

  Result<const Toxic*> find_toxic(std::string_view proxy, std::string_view name) const;
  Result<void> add_toxic(std::string_view proxy, Toxic toxic);
  Result<void> change_toxic(std::string_view proxy, Toxic toxic);  // the one of its name
  Result<void> remove_toxic(std::string_view proxy, std::string_view name);

  // Everything enabled, and no toxics. What cannot be enabled stays as it is, and is the error.
  Result<void> reset();

 private:
  Result<Entry*> entry(std::string_view name);
  Result<void> start(Entry& entry) const;
  bool comes_back(const FaultProxy& first) const;

  std::map<std::string, Entry, std::less<>> entries_;
  std::uint64_t last_id_ = 0;
};

}  // namespace weir::drill
