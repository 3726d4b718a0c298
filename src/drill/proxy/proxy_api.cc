#include "drill/proxy/proxy_api.h"

#include <utility>
#include <vector>

#include "drill/proxy/proxy_json.h"
#include "weir/version.h"

namespace weir::drill {
namespace {

constexpr unsigned kOk = 200;
constexpr unsigned kCreated = 201;
constexpr unsigned kNoContent = 204;
constexpr unsigned kBadRequest = 400;
constexpr unsigned kNotFound = 404;
constexpr unsigned kMethodNotAllowed = 405;
constexpr unsigned kConflict = 409;
constexpr unsigned kServerError = 500;

unsigned status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
      return kBadRequest;
    case ErrorCode::not_found:
      return kNotFound;
    case ErrorCode::failed_precondition:
    case ErrorCode::unavailable:
    case ErrorCode::resource_exhausted:
      return kConflict;
    case ErrorCode::internal:
      break;
  }
  return kServerError;
}

std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json fault_json(unsigned status, std::string_view text) {
  return {{"error", text}, {"status", status}};
}

ApiAnswer fault(unsigned status, std::string_view text) {
  return {status, text_of(fault_json(status, text))};
}

ApiAnswer fault(const Error& error) {
  return fault(status_of(error.code), error.message);
}

ApiAnswer no_such_method(std::string_view allowed) {
  return fault(kMethodNotAllowed, "method not allowed here; allowed: " + std::string(allowed));
}

ApiAnswer nothing_or(const Result<void>& outcome) {
  if (!outcome) return fault(outcome.error());
  return {kNoContent, {}};
}

bool changes(std::string_view method) {
  return method == "POST" || method == "PATCH";
}

// "/proxies/a/toxics/b" in its parts; more than five are too many already.
std::vector<std::string_view> parts_of(std::string_view target) {
  std::vector<std::string_view> parts;
  target = target.substr(0, target.find('?'));
  if (target.starts_with('/')) target.remove_prefix(1);
  if (target.ends_with('/')) target.remove_suffix(1);
  while (parts.size() < 5) {
    const std::size_t slash = target.find('/');
    parts.push_back(target.substr(0, slash));
    if (slash == std::string_view::npos) break;
    target.remove_prefix(slash + 1);
  }
  return parts;
}

// Makes the proxy, and its toxics where the object has some: all of it or nothing.
Result<void> create(ProxySet& proxies, const Json& object) {
  auto entry = read_entry(object);
  if (!entry) return std::move(entry).error();
  std::vector<Toxic> toxics;
  if (const auto at = object.find("toxics"); at != object.end() && !at->is_null()) {
    if (!at->is_array()) {
      return Error{ErrorCode::invalid_argument, "bad request body: toxics must be a list"};
    }
    for (const Json& each : *at) {
      auto toxic = read_toxic(each);
      if (!toxic) return std::move(toxic).error();
      toxics.push_back(std::move(*toxic));
    }
  }
  const std::string name = entry->name;
  if (auto added = proxies.add(std::move(*entry)); !added) return added;
  for (Toxic& toxic : toxics) {
    if (auto added = proxies.add_toxic(name, std::move(toxic)); !added) {
      (void)proxies.remove(name);
      return added;
    }
  }
  return {};
}

// As Toxiproxy does: a proxy that is there with these addresses stays, with any others it is made
// anew.
Result<void> create_or_replace(ProxySet& proxies, const Json& object) {
  const auto entry = read_entry(object);
  if (!entry) return entry.error();
  if (const auto found = proxies.find(entry->name)) {
    if ((*found)->listen == entry->listen && (*found)->upstream == entry->upstream) return {};
    if (auto removed = proxies.remove(entry->name); !removed) return removed;
  }
  return create(proxies, object);
}

// `made` are the names of those that are there, up to the first that could not be.
Result<void> populate_with(ProxySet& proxies, std::string_view body,
                           std::vector<std::string>& made) {
  const auto read = read_json(body);
  if (!read) return read.error();
  const Json& list = *read;
  if (!list.is_array()) {
    return Error{ErrorCode::invalid_argument, "bad request body: it is no JSON list of proxies"};
  }
  // All of them are looked at before the first is made.
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (const auto entry = read_entry(list[i]); !entry) {
      return Error{entry.error().code,
                   entry.error().message + " at proxy " + std::to_string(i + 1)};
    }
  }
  for (const Json& each : list) {
    if (auto outcome = create_or_replace(proxies, each); !outcome) return outcome;
    made.push_back(each["name"].get<std::string>());
  }
  return {};
}

}  // namespace

ApiAnswer ProxyApi::answer(std::string_view method, std::string_view target,
                           std::string_view body) {
  const std::vector<std::string_view> parts = parts_of(target);
  const std::string_view first = parts.front();
  if (first == "proxies" && parts.size() == 1) return of_all(method, body);
  if (first == "proxies" && parts.size() == 2) return of_one(method, parts[1], body);
  if (first == "proxies" && parts.size() <= 4 && parts[2] == "toxics") {
    return parts.size() == 3 ? of_toxics(method, parts[1], body)
                             : of_toxic(method, parts[1], parts[3], body);
  }
  if (first == "reset" && parts.size() == 1) {
    return method == "POST" ? nothing_or(proxies_.reset()) : no_such_method("POST");
  }
  if (first == "populate" && parts.size() == 1) {
    return method == "POST" ? populate_and_tell(body) : no_such_method("POST");
  }
  if (first == "version" && parts.size() == 1) {
    if (method != "GET") return no_such_method("GET");
    return {kOk, text_of({{"version", kSpokenVersion}, {"weir", kVersion}})};
  }
  return fault(kNotFound, "there is no such address; docs/reference/proxy.md lists them");
}

ApiAnswer ProxyApi::of_all(std::string_view method, std::string_view body) {
  if (method == "GET") {
    Json all = Json::object();
    for (const auto& [name, entry] : proxies_.all()) all[name] = to_json(entry);
    return {kOk, text_of(all)};
  }
  if (method != "POST") return no_such_method("GET, POST");
  const auto object = read_object(body);
  if (!object) return fault(object.error());
  if (const auto created = create(proxies_, *object); !created) return fault(created.error());
  return {kCreated, text_of(to_json(**proxies_.find((*object)["name"].get<std::string>())))};
}

ApiAnswer ProxyApi::of_one(std::string_view method, std::string_view name, std::string_view body) {
  if (const auto found = proxies_.find(name); !found) return fault(found.error());
  if (method == "DELETE") return nothing_or(proxies_.remove(name));
  if (changes(method)) {
    const auto object = read_object(body);
    if (!object) return fault(object.error());
    const auto change = read_change(*object, name);
    if (!change) return fault(change.error());
    if (const auto changed = proxies_.change(name, *change); !changed) {
      return fault(changed.error());
    }
  } else if (method != "GET") {
    return no_such_method("GET, POST, PATCH, DELETE");
  }
  return {kOk, text_of(to_json(**proxies_.find(name)))};
}

ApiAnswer ProxyApi::of_toxics(std::string_view method, std::string_view proxy,
                              std::string_view body) {
  const auto found = proxies_.find(proxy);
  if (!found) return fault(found.error());
  if (method == "GET") return {kOk, text_of(to_json(**found)["toxics"])};
  if (method != "POST") return no_such_method("GET, POST");
  const auto object = read_object(body);
  if (!object) return fault(object.error());
  const auto toxic = read_toxic(*object);
  if (!toxic) return fault(toxic.error());
  if (const auto added = proxies_.add_toxic(proxy, *toxic); !added) return fault(added.error());
  return {kOk, text_of(to_json(*toxic))};
}

ApiAnswer ProxyApi::of_toxic(std::string_view method, std::string_view proxy, std::string_view name,
                             std::string_view body) {
  const auto found = proxies_.find_toxic(proxy, name);
  if (!found) return fault(found.error());
  if (method == "DELETE") return nothing_or(proxies_.remove_toxic(proxy, name));
  if (method == "GET") return {kOk, text_of(to_json(**found))};
  if (!changes(method)) return no_such_method("GET, POST, PATCH, DELETE");
  const auto object = read_object(body);
  if (!object) return fault(object.error());
  const auto toxic = read_toxic_change(*object, **found);
  if (!toxic) return fault(toxic.error());
  if (const auto changed = proxies_.change_toxic(proxy, *toxic); !changed) {
    return fault(changed.error());
  }
  return {kOk, text_of(to_json(*toxic))};
}

ApiAnswer ProxyApi::populate_and_tell(std::string_view body) {
  std::vector<std::string> made;
  const auto outcome = populate_with(proxies_, body, made);
  const unsigned status = outcome ? kCreated : status_of(outcome.error().code);
  Json told = outcome ? Json::object() : fault_json(status, outcome.error().message);
  told["proxies"] = Json::array();
  for (const std::string& name : made) told["proxies"].push_back(to_json(**proxies_.find(name)));
  return {status, text_of(told)};
}

Result<void> ProxyApi::populate(std::string_view text) {
  std::vector<std::string> made;
  return populate_with(proxies_, text, made);
}

}  // namespace weir::drill
