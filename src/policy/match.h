#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/model.h"
#include "policy/name_table.h"

namespace weir::policy {

// Finds a policy's routes by their name, and by what a request asks for.
//
// Guarantees:  of the matches that fit a request wholly, the most specific wins: first one that
//              names the host, then the exact path before a prefix and a longer prefix before a
//              shorter, then one that names the method. The order in the file means nothing.
// Threads:     immutable; any number at once.
// Cost:        a lookup by name is one hash; by request one or two hashes for each length of prefix
//              that the policy has. No allocation.
class Matcher {
 public:
  // Requires: find_conflicts(model.routes) is empty.
  static std::shared_ptr<const Matcher> build(const Model& model);

  // These answer an index into Model::routes, but for by_domain().
  std::optional<std::uint32_t> by_name(std::string_view name) const noexcept {
    return found(names_, name);
  }
  // The place of an Envoy-style domain in Model::domains.
  std::optional<std::uint32_t> by_domain(std::string_view name) const noexcept {
    return found(domains_, name);
  }
  // `method` in capitals; `host` in lower case, without port; `path` as normalise_path() gives it.
  std::optional<std::uint32_t> by_request(std::string_view method, std::string_view host,
                                          std::string_view path) const noexcept;

 private:
  struct Entry {
    std::string method;  // empty: any; stands behind all that name one
    std::uint32_t route = 0;
  };
  using Entries = std::vector<Entry>;
  // Prefixes of one length. `within` holds those of whole segments ("/api/*", under "/api").
  struct Prefixes {
    std::size_t length = 0;
    TextMap<Entries> within;
    TextMap<Entries> begins;
  };
  struct Host {
    TextMap<Entries> exact;
    std::vector<Prefixes> prefixes;  // the longest first
    Entries any;
  };

  static std::optional<std::uint32_t> found(const NameTable& table,
                                            std::string_view name) noexcept {
    const std::uint32_t* place = table.find(name);
    return place != nullptr ? std::optional<std::uint32_t>(*place) : std::nullopt;
  }
  static void insert(Host& host, const Match& match, std::uint32_t route);
  static std::optional<std::uint32_t> pick(const Entries& entries, std::string_view method);
  static std::optional<std::uint32_t> pick(const TextMap<Entries>& table, std::string_view path,
                                           std::string_view method);
  static std::optional<std::uint32_t> search(const Host& host, std::string_view method,
                                             std::string_view path);

  NameTable names_;
  NameTable domains_;
  TextMap<Host> hosts_;
  Host any_host_;
};

// Two matches that fit the same requests and are equally specific.
struct MatchConflict {
  std::size_t first = 0;  // indices of routes
  std::size_t second = 0;
  Place place;       // of the second match
  std::string what;  // "POST /login"
};
std::vector<MatchConflict> find_conflicts(const std::vector<Route>& routes);

}  // namespace weir::policy
