#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "drill/proxy/proxy_set.h"
#include "weir/result.h"

// Internal to the proxy's API: its JSON.
namespace weir::drill {

using Json = nlohmann::ordered_json;

Json to_json(const Toxic& toxic);
Json to_json(const ProxySet::Entry& entry);

// Errors:      invalid_argument: it is no JSON, or a field stands twice in an object.
Result<Json> read_json(std::string_view body);

// Errors:      invalid_argument, naming the field and what is allowed.
Result<Json> read_object(std::string_view body);

// A proxy that is to be made, with its toxics where the body has some.
Result<ProxySet::Entry> read_entry(const Json& object);
Result<ProxySet::Change> read_change(const Json& object, std::string_view name);
Result<Toxic> read_toxic(const Json& object);
// The toxic with what the object changes of it.
Result<Toxic> read_toxic_change(const Json& object, Toxic now);

}  // namespace weir::drill
