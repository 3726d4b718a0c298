#include "drill/proxy/proxy_set.h"

#include <algorithm>
#include <thread>
#include <tuple>
#include <utility>

namespace weir::drill {
namespace {

Error no_proxy() {
  return {ErrorCode::not_found, "proxy not found"};
}
Error no_toxic() {
  return {ErrorCode::not_found, "toxic not found"};
}

// A name stands in addresses.
std::optional<Error> fault_of(std::string_view name) {
  const bool fits = !name.empty() && name.size() <= ProxySet::kMostNameBytes &&
                    std::all_of(name.begin(), name.end(), [](char c) {
                      return c > ' ' && c != '/' && c != '?' && c != '#' && c != '%' && c != 0x7f;
                    });
  if (fits) return std::nullopt;
  return Error{ErrorCode::invalid_argument, "a name must be 1 to " +
                                                std::to_string(ProxySet::kMostNameBytes) +
                                                " visible characters without /, ?, # and %"};
}

std::string host_of(const std::string& address) {
  return address.substr(0, address.rfind(':'));
}

std::vector<Toxic>::iterator toxic_named(std::vector<Toxic>& toxics, std::string_view name) {
  return std::find_if(toxics.begin(), toxics.end(),
                      [name](const Toxic& each) { return each.name == name; });
}

}  // namespace

Result<const ProxySet::Entry*> ProxySet::find(std::string_view name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) return no_proxy();
  return &found->second;
}

Result<ProxySet::Entry*> ProxySet::entry(std::string_view name) {
  const auto found = entries_.find(name);
  if (found == entries_.end()) return no_proxy();
  return &found->second;
}

// Whether what a proxy passes on comes back to it through others of these.
bool ProxySet::comes_back(const FaultProxy& first) const {
  const FaultProxy* at = &first;
  for (std::size_t passed = 0; passed <= entries_.size(); ++passed) {
    if (at->leads_to(first)) return true;
    const auto next = std::find_if(entries_.begin(), entries_.end(), [at](const auto& each) {
      return each.second.proxy && at->leads_to(*each.second.proxy);
    });
    if (next == entries_.end()) return false;
    at = next->second.proxy.get();
  }
  return false;
}

Result<void> ProxySet::start(Entry& entry) const {
  // On a busy machine a thread gets one share of it, whatever it has to do.
  const std::uint32_t loops = std::clamp(std::thread::hardware_concurrency(), 1U, kMostLoops);
  auto proxy =
      FaultProxy::start({.listen = entry.listen, .target = entry.upstream, .loops = loops});
  if (!proxy) return std::move(proxy).error();
  if (comes_back(**proxy)) {
    return Error{ErrorCode::invalid_argument,
                 "upstream is '" + entry.upstream +
                     "': what it passed on would come back to it through other proxies"};
  }
  entry.proxy = std::move(*proxy);
  entry.listen = host_of(entry.listen) + ":" + std::to_string(entry.proxy->port());
  entry.proxy->set_toxics(entry.toxics);
  return {};
}

Result<void> ProxySet::add(Entry entry) {
  if (auto fault = fault_of(entry.name)) return *fault;
  if (entries_.contains(entry.name))
    return Error{ErrorCode::failed_precondition, "proxy already exists"};
  if (entries_.size() >= kMostProxies) {
    return Error{ErrorCode::resource_exhausted,
                 "there are " + std::to_string(kMostProxies) + " proxies, which is the most"};
  }
  if (entry.enabled) {
    if (auto started = start(entry); !started) return started;
  }
  std::string name = entry.name;
  entries_.emplace(std::move(name), std::move(entry));
  return {};
}

Result<void> ProxySet::change(std::string_view name, const Change& change) {
  const auto found = entry(name);
  if (!found) return found.error();
  Entry& now = **found;
  const std::string listen = change.listen.value_or(now.listen);
  const std::string upstream = change.upstream.value_or(now.upstream);
  const bool enabled = change.enabled.value_or(now.enabled);
  const bool moved = listen != now.listen || upstream != now.upstream;
  if (moved || !enabled) now.proxy.reset();
  const std::pair before(now.listen, now.upstream);
  now.listen = listen;
  now.upstream = upstream;
  if (enabled && !now.proxy) {
    if (auto started = start(now); !started) {
      // It was asked for what cannot be had: it is as it was, where that can still be had.
      std::tie(now.listen, now.upstream) = before;
      if (now.enabled) now.enabled = start(now).has_value();
      return started;
    }
  }
  now.enabled = enabled;
  return {};
}

Result<void> ProxySet::remove(std::string_view name) {
  const auto found = entries_.find(name);
  if (found == entries_.end()) return no_proxy();
  entries_.erase(found);
  return {};
}

Result<const Toxic*> ProxySet::find_toxic(std::string_view proxy, std::string_view name) const {
  const auto found = find(proxy);
  if (!found) return found.error();
  for (const Toxic& each : (*found)->toxics) {
    if (each.name == name) return &each;
  }
  return no_toxic();
}

Result<void> ProxySet::add_toxic(std::string_view proxy, Toxic toxic) {
  const auto found = entry(proxy);
  if (!found) return found.error();
  Entry& to = **found;
  if (auto fault = fault_of(toxic.name)) return *fault;
  if (toxic_named(to.toxics, toxic.name) != to.toxics.end()) {
    return Error{ErrorCode::failed_precondition, "toxic already exists"};
  }
  if (to.toxics.size() >= kMostToxics) {
    return Error{ErrorCode::resource_exhausted,
                 "the proxy has " + std::to_string(kMostToxics) + " toxics, which is the most"};
  }
  toxic.id = ++last_id_;
  to.toxics.push_back(std::move(toxic));
  if (to.proxy) to.proxy->set_toxics(to.toxics);
  return {};
}

Result<void> ProxySet::change_toxic(std::string_view proxy, Toxic toxic) {
  const auto found = entry(proxy);
  if (!found) return found.error();
  Entry& of = **found;
  const auto at = toxic_named(of.toxics, toxic.name);
  if (at == of.toxics.end()) return no_toxic();
  toxic.id = ++last_id_;
  *at = std::move(toxic);
  if (of.proxy) of.proxy->set_toxics(of.toxics);
  return {};
}

Result<void> ProxySet::remove_toxic(std::string_view proxy, std::string_view name) {
  const auto found = entry(proxy);
  if (!found) return found.error();
  Entry& of = **found;
  const auto at = toxic_named(of.toxics, name);
  if (at == of.toxics.end()) return no_toxic();
  of.toxics.erase(at);
  if (of.proxy) of.proxy->set_toxics(of.toxics);
  return {};
}

Result<void> ProxySet::reset() {
  Result<void> outcome;
  for (auto& [name, each] : entries_) {
    each.toxics.clear();
    if (each.proxy) each.proxy->set_toxics({});
    if (each.enabled) continue;
    if (auto started = start(each); started) {
      each.enabled = true;
    } else {
      outcome = started;
    }
  }
  return outcome;
}

}  // namespace weir::drill
