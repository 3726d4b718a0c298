#include "drill/proxy/proxy_json.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "policy/fault_list.h"

namespace weir::drill {
namespace {

Error bad(std::string text) {
  return {ErrorCode::invalid_argument, "bad request body: " + std::move(text)};
}

Error missing(std::string_view field) {
  return {ErrorCode::invalid_argument, "missing required field: " + std::string(field)};
}

std::string shown(const Json& value) {
  return policy::shown(value.dump(-1, ' ', true, Json::error_handler_t::replace));
}

// Names the first field that is not one of these.
Result<void> only(const Json& object, std::string_view what,
                  std::initializer_list<std::string_view> known) {
  for (const auto& [name, value] : object.items()) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      return bad(std::string(what) + " has no field '" + policy::shown(name) + "'; it has " +
                 policy::one_of(std::vector<std::string_view>(known)));
    }
  }
  return {};
}

// Absent where the field is absent or null.
Result<std::optional<std::string>> text_at(const Json& object, const char* field) {
  const auto at = object.find(field);
  if (at == object.end() || at->is_null()) return std::optional<std::string>();
  if (!at->is_string())
    return bad(std::string(field) + " is " + shown(*at) + "; it must be a text");
  return std::optional(at->get<std::string>());
}

Result<std::optional<bool>> flag_at(const Json& object, const char* field) {
  const auto at = object.find(field);
  if (at == object.end() || at->is_null()) return std::optional<bool>();
  if (!at->is_boolean()) {
    return bad(std::string(field) + " is " + shown(*at) + "; it must be true or false");
  }
  return std::optional(at->get<bool>());
}

Result<void> read_toxicity(const Json& object, Toxic& toxic) {
  const auto at = object.find("toxicity");
  if (at == object.end() || at->is_null()) return {};
  const double part = at->is_number() ? at->get<double>() : -1.0;
  if (!(part >= 0.0 && part <= 1.0)) {
    return bad("toxicity is " + shown(*at) + "; it must be a number from 0 to 1");
  }
  toxic.toxicity = static_cast<std::uint32_t>(std::lround(part * Toxic::kAlways));
  return {};
}

// Clients of some languages have one kind of number alone: 100.0 is a whole one.
std::optional<std::int64_t> whole(const Json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return std::nullopt;
    }
    return static_cast<std::int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const double number = value.get<double>();
  if (std::trunc(number) != number || std::abs(number) > 9e15) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

Result<void> read_attributes(const Json& object, Toxic& toxic) {
  const auto at = object.find("attributes");
  if (at == object.end() || at->is_null()) return {};
  if (!at->is_object()) return bad("attributes is " + shown(*at) + "; it must be an object");
  const ToxicForm& form = form_of(toxic.kind);
  for (const auto& [name, value] : at->items()) {
    const auto known = std::find_if(form.attributes.begin(), form.attributes.end(),
                                    [&name = name](const auto& each) { return each.name == name; });
    if (known == form.attributes.end()) {
      std::vector<std::string_view> names;
      for (const auto& each : form.attributes) names.push_back(each.name);
      return bad("a toxic of type " + std::string(form.word) + " has no attribute '" +
                 policy::shown(name) + "'; it has " +
                 (names.empty() ? std::string("none") : policy::one_of(names)));
    }
    const auto number = whole(value);
    if (!number || *number < known->least || *number > known->most) {
      return bad("attributes." + name + " is " + shown(value) +
                 "; it must be a whole number from " + std::to_string(known->least) + " to " +
                 std::to_string(known->most));
    }
    toxic.values[static_cast<std::size_t>(known - form.attributes.begin())] = *number;
  }
  return {};
}

Result<void> read_stream(const Json& object, Toxic& toxic) {
  const auto text = text_at(object, "stream");
  if (!text) return text.error();
  const std::string word = (*text).value_or("");
  if (word == "upstream") {
    toxic.stream = Toxic::Stream::upstream;
  } else if (!word.empty() && word != "downstream") {
    return Error{
        ErrorCode::invalid_argument,
        "stream was invalid, can be either upstream or downstream: '" + policy::shown(word) + "'"};
  }
  return {};
}

Result<void> check(const Toxic& toxic) {
  if (toxic.kind == Toxic::Kind::refuse && toxic.toxicity != Toxic::kAlways) {
    return bad("toxicity of a toxic of type refuse must be 1: nothing listens, for anybody");
  }
  return {};
}

}  // namespace

Json to_json(const Toxic& toxic) {
  Json attributes = Json::object();
  const auto known = form_of(toxic.kind).attributes;
  for (std::size_t i = 0; i < known.size(); ++i) {
    attributes[std::string(known[i].name)] = toxic.values[i];
  }
  return {{"attributes", std::move(attributes)},
          {"name", toxic.name},
          {"type", form_of(toxic.kind).word},
          {"stream", to_string(toxic.stream)},
          {"toxicity", static_cast<double>(toxic.toxicity) / Toxic::kAlways}};
}

Json to_json(const ProxySet::Entry& entry) {
  Json toxics = Json::array();
  for (const Toxic& each : entry.toxics) toxics.push_back(to_json(each));
  return {{"name", entry.name},
          {"listen", entry.listen},
          {"upstream", entry.upstream},
          {"enabled", entry.enabled},
          {"toxics", std::move(toxics)}};
}

Result<Json> read_json(std::string_view body) {
  // Of a field that stands twice a reader of JSON takes the first or the last; which was meant
  // nobody knows. A set for each object that is open.
  std::vector<std::set<std::string, std::less<>>> open;
  std::string twice;
  const auto look = [&](int, Json::parse_event_t event, Json& parsed) {
    switch (event) {
      case Json::parse_event_t::object_start:
        open.emplace_back();
        break;
      case Json::parse_event_t::object_end:
        open.pop_back();
        break;
      case Json::parse_event_t::key:
        if (!open.back().insert(parsed.get<std::string>()).second && twice.empty()) {
          twice = parsed.get<std::string>();
        }
        break;
      default:
        break;
    }
    return true;
  };
  Json read = Json::parse(body, look, false);
  if (read.is_discarded()) return bad("it is no JSON");
  if (!twice.empty()) {
    return bad("field '" + policy::shown(twice) + "' stands there twice; it must stand once");
  }
  return read;
}

Result<Json> read_object(std::string_view body) {
  auto read = read_json(body);
  if (read && !read->is_object()) return bad("it is no JSON object");
  return read;
}

Result<ProxySet::Entry> read_entry(const Json& object) {
  if (!object.is_object()) return bad("a proxy is " + shown(object) + "; it must be an object");
  if (auto known =
          only(object, "a proxy", {"name", "listen", "upstream", "enabled", "toxics", "Logger"});
      !known) {
    return known.error();
  }
  ProxySet::Entry entry;
  for (const auto& [field, to] :
       {std::pair{"name", &entry.name}, {"listen", &entry.listen}, {"upstream", &entry.upstream}}) {
    auto text = text_at(object, field);
    if (!text) return text.error();
    *to = (*text).value_or("");
  }
  if (entry.name.empty()) return missing("name");
  if (entry.upstream.empty()) return missing("upstream");
  if (entry.listen.empty()) entry.listen = "127.0.0.1:0";
  const auto enabled = flag_at(object, "enabled");
  if (!enabled) return enabled.error();
  entry.enabled = (*enabled).value_or(true);
  return entry;
}

Result<ProxySet::Change> read_change(const Json& object, std::string_view name) {
  if (auto known =
          only(object, "a proxy", {"name", "listen", "upstream", "enabled", "toxics", "Logger"});
      !known) {
    return known.error();
  }
  const auto given = text_at(object, "name");
  if (!given) return given.error();
  if (*given && !(**given).empty() && **given != name) {
    return bad("name is '" + policy::shown(**given) + "'; a proxy keeps the name it has");
  }
  auto listen = text_at(object, "listen");
  if (!listen) return listen.error();
  auto upstream = text_at(object, "upstream");
  if (!upstream) return upstream.error();
  const auto enabled = flag_at(object, "enabled");
  if (!enabled) return enabled.error();
  ProxySet::Change change{.listen = *listen, .upstream = *upstream, .enabled = *enabled};
  if (change.listen && change.listen->empty()) change.listen.reset();
  if (change.upstream && change.upstream->empty()) change.upstream.reset();
  return change;
}

Result<Toxic> read_toxic(const Json& object) {
  if (!object.is_object()) return bad("a toxic is " + shown(object) + "; it must be an object");
  if (auto known = only(object, "a toxic", {"name", "type", "stream", "toxicity", "attributes"});
      !known) {
    return known.error();
  }
  const auto type = text_at(object, "type");
  if (!type) return type.error();
  const ToxicForm* form = form_named((*type).value_or(""));
  if (form == nullptr) {
    std::vector<std::string_view> words;
    for (const ToxicForm& each : toxic_forms()) words.push_back(each.word);
    return Error{ErrorCode::invalid_argument, "invalid toxic type: '" +
                                                  policy::shown((*type).value_or("")) +
                                                  "'; it must be " + policy::one_of(words)};
  }
  Toxic toxic = usual_toxic(form->kind);
  if (auto read = read_stream(object, toxic); !read) return read.error();
  const auto name = text_at(object, "name");
  if (!name) return name.error();
  toxic.name = (*name).value_or("");
  if (toxic.name.empty()) {
    toxic.name = std::string(form->word) + "_" + std::string(to_string(toxic.stream));
  }
  if (auto read = read_toxicity(object, toxic); !read) return read.error();
  if (auto read = read_attributes(object, toxic); !read) return read.error();
  if (auto fits = check(toxic); !fits) return fits.error();
  return toxic;
}

Result<Toxic> read_toxic_change(const Json& object, Toxic now) {
  if (auto known = only(object, "a toxic", {"name", "type", "stream", "toxicity", "attributes"});
      !known) {
    return known.error();
  }
  // Some clients send the whole toxic; what cannot be changed must be what it is.
  const Json is = to_json(now);
  for (const char* field : {"name", "type", "stream"}) {
    const auto text = text_at(object, field);
    if (!text) return text.error();
    if (*text && !(**text).empty() && **text != is[field].get<std::string>()) {
      return bad(std::string(field) + " is '" + policy::shown(**text) +
                 "'; it stays what it is: take the toxic away and make another");
    }
  }
  if (auto read = read_toxicity(object, now); !read) return read.error();
  if (auto read = read_attributes(object, now); !read) return read.error();
  if (auto fits = check(now); !fits) return fits.error();
  return now;
}

}  // namespace weir::drill
