#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "policy/fault_list.h"
#include "policy/yaml.h"
#include "weir/clock.h"

namespace weir::policy {

// A node with the path that messages call it by: "routes.login.limits[0].per".
struct Value {
  const YamlNode* node = nullptr;
  std::string path;
};

// Reads the fields of one map and reports those it does not know.
class MapReader {
 public:
  // `what` names the map in messages: "a route". Where `at` is no map, that is a fault, and every
  // field is absent.
  MapReader(FaultList& faults, const Value& at, std::string_view what,
            std::initializer_list<std::string_view> known);
  // As other readers are: fields of `elsewhere` that mean nothing here are a warning, and a field
  // without a value is absent.
  MapReader(FaultList& faults, const Value& at, std::string_view what,
            std::initializer_list<std::string_view> known,
            const std::vector<std::string_view>& elsewhere);

  // The value of a field; absent where the map has none, or nothing is written after its colon
  // (which is a fault).
  std::optional<Value> get(std::string_view field);
  bool has(std::string_view field) const { return map_ != nullptr && map_->find(field) != nullptr; }
  bool is_map() const { return map_ != nullptr; }
  const Value& at() const { return at_; }
  std::string path_of(std::string_view field) const;

 private:
  FaultList& faults_;
  Value at_;
  const YamlNode* map_ = nullptr;
  bool null_is_absent_ = false;
};

std::string joined(std::string_view path, std::string_view field);
std::string indexed(std::string_view path, std::size_t index);

// Each reads one value of a kind, or reports what it is not and what is allowed.
std::optional<std::string> read_text(FaultList& faults, const Value& at);
std::optional<bool> read_bool(FaultList& faults, const Value& at);
// A plain decimal number: no sign, point, exponent, other base, leading zero or quotes.
std::optional<std::uint64_t> read_integer(FaultList& faults, const Value& at, std::uint64_t least,
                                          std::uint64_t most);
std::optional<Nanos> read_duration(FaultList& faults, const Value& at, Nanos least, Nanos most);
// "20%": a whole number of percent, as a fraction.
std::optional<double> read_percent(FaultList& faults, const Value& at, std::uint64_t least,
                                   std::uint64_t most);
// The items of a list; where `single` is true a lone scalar or map counts as a list of one.
enum class Lone : std::uint8_t { refused, is_a_list_of_one };
std::vector<Value> read_list(FaultList& faults, const Value& at, std::size_t most, Lone lone);

// One word of a closed set.
template <class Enum>
std::optional<Enum> read_choice(FaultList& faults, const Value& at,
                                std::initializer_list<std::pair<std::string_view, Enum>> choices) {
  std::vector<std::string_view> words;
  for (const auto& [word, value] : choices) {
    if (at.node->is_scalar() && at.node->text == word) return value;
    words.push_back(word);
  }
  faults.add(*at.node, at.path, "is no choice here", one_of(words));
  return std::nullopt;
}

}  // namespace weir::policy
