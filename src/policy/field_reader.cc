#include "policy/field_reader.h"

#include <algorithm>
#include <charconv>

#include "policy/duration.h"

namespace weir::policy {
namespace {

std::string_view kind_of(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::null:
      return "is empty";
    case YamlNode::Kind::scalar:
      return "is a single value";
    case YamlNode::Kind::sequence:
      return "is a list";
    case YamlNode::Kind::map:
      return "is a map";
  }
  return "is something else";
}

// Why a scalar is no plain decimal number, in words.
std::string_view number_problem(const YamlNode& node) {
  const std::string& text = node.text;
  if (node.quoted) return "is text, because of its quotes";
  if (text.empty()) return "is empty";
  if (text.front() == '-') return "is negative";
  const bool digits = text.find_first_not_of("0123456789") == text.npos;
  if (digits && text.size() > 1 && text.front() == '0')
    return "begins with a zero: decimal or octal?";
  if (digits) return "is past the range";
  return "is no whole number";
}

std::string range_text(std::uint64_t least, std::uint64_t most) {
  return "a whole number from " + std::to_string(least) + " to " + std::to_string(most);
}

}  // namespace

std::string joined(std::string_view path, std::string_view field) {
  std::string out(path);
  if (!out.empty()) out += '.';
  const bool plain =
      !field.empty() && field.size() <= 64 && field.find_first_of(" .[]\t\r\n") == field.npos;
  return plain ? out.append(field) : out + "\"" + shown(field) + "\"";
}

std::string indexed(std::string_view path, std::size_t index) {
  return std::string(path) + "[" + std::to_string(index) + "]";
}

MapReader::MapReader(FaultList& faults, const Value& at, std::string_view what,
                     std::initializer_list<std::string_view> known)
    : MapReader(faults, at, what, known, {}) {
  null_is_absent_ = false;
}

MapReader::MapReader(FaultList& faults, const Value& at, std::string_view what,
                     std::initializer_list<std::string_view> known,
                     const std::vector<std::string_view>& elsewhere)
    : faults_(faults), at_(at), null_is_absent_(true) {
  const std::vector<std::string_view> fields(known);
  const auto among = [](const std::vector<std::string_view>& words, std::string_view word) {
    return std::find(words.begin(), words.end(), word) != words.end();
  };
  if (!at.node->is_map()) {
    faults_.add(*at.node, at.path, std::string(kind_of(*at.node)) + ", not " + std::string(what),
                "the fields " + one_of(fields));
    return;
  }
  map_ = at.node;
  for (const auto& [key, value] : map_->fields) {
    if (among(fields, key->text)) continue;
    if (among(elsewhere, key->text)) {
      faults_.warn(*key, joined(at.path, key->text),
                   "means nothing in " + std::string(what) + "; nobody reads it");
      continue;
    }
    const std::string_view meant = nearest(key->text, fields);
    faults_.add_silent(*key, joined(at.path, key->text),
                       "is no field of " + std::string(what) +
                           (meant.empty() ? "" : "; did you mean '" + std::string(meant) + "'?"),
                       one_of(fields));
  }
}

std::string MapReader::path_of(std::string_view field) const {
  return joined(at_.path, field);
}

std::optional<Value> MapReader::get(std::string_view field) {
  if (map_ == nullptr) return std::nullopt;
  for (const auto& [key, value] : map_->fields) {
    if (key->text != field) continue;
    if (value->kind != YamlNode::Kind::null) return Value{value, path_of(field)};
    if (null_is_absent_) return std::nullopt;
    faults_.add_silent(*key, path_of(field), "has no value", "a value, or the line left out");
    return std::nullopt;
  }
  return std::nullopt;
}

std::optional<std::string> read_text(FaultList& faults, const Value& at) {
  if (at.node->is_scalar() && !at.node->text.empty()) return at.node->text;
  faults.add(*at.node, at.path, at.node->is_scalar() ? "is empty" : std::string(kind_of(*at.node)),
             "text");
  return std::nullopt;
}

std::optional<bool> read_bool(FaultList& faults, const Value& at) {
  if (at.node->is_scalar() && !at.node->quoted) {
    if (at.node->text == "true") return true;
    if (at.node->text == "false") return false;
  }
  faults.add(*at.node, at.path, "is neither true nor false", "true or false");
  return std::nullopt;
}

std::optional<std::uint64_t> read_integer(FaultList& faults, const Value& at, std::uint64_t least,
                                          std::uint64_t most) {
  if (!at.node->is_scalar()) {
    faults.add(*at.node, at.path, std::string(kind_of(*at.node)), range_text(least, most));
    return std::nullopt;
  }
  const std::string& text = at.node->text;
  const bool plain = !at.node->quoted && !text.empty() &&
                     text.find_first_not_of("0123456789") == text.npos &&
                     (text.size() == 1 || text.front() != '0');
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (!plain || error != std::errc{} || end != text.data() + text.size()) {
    faults.add(*at.node, at.path, std::string(number_problem(*at.node)), range_text(least, most));
    return std::nullopt;
  }
  if (value >= least && value <= most) return value;
  faults.add(*at.node, at.path, value == 0 ? "means nothing here" : "is past the range",
             range_text(least, most));
  return std::nullopt;
}

std::optional<Nanos> read_duration(FaultList& faults, const Value& at, Nanos least, Nanos most) {
  const std::string allowed =
      std::string(kDurationForm) + ", from " + to_text(least) + " to " + to_text(most);
  const YamlNode& node = *at.node;
  if (!node.is_scalar()) {
    faults.add(node, at.path, std::string(kind_of(node)), allowed);
    return std::nullopt;
  }
  const bool bare =
      !node.text.empty() && node.text.find_first_not_of("0123456789") == std::string::npos;
  const auto value = parse_duration(node.text);
  if (!value) {
    faults.add(node, at.path, bare ? "has no unit" : "is no duration", allowed);
    return std::nullopt;
  }
  if (*value >= least && *value <= most) return value;
  faults.add(node, at.path, "is past the range", allowed);
  return std::nullopt;
}

std::optional<double> read_percent(FaultList& faults, const Value& at, std::uint64_t least,
                                   std::uint64_t most) {
  const std::string& text = at.node->text;
  if (at.node->is_scalar() && text.size() >= 2 && text.size() <= 4 && text.back() == '%') {
    unsigned value = 0;
    const char* const last = text.data() + text.size() - 1;
    const auto [end, error] = std::from_chars(text.data(), last, value);
    if (error == std::errc{} && end == last && value >= least && value <= most)
      return value / 100.0;
  }
  faults.add(*at.node, at.path, "is no share in percent",
             "from " + std::to_string(least) + "% to " + std::to_string(most) + "%");
  return std::nullopt;
}

std::vector<Value> read_list(FaultList& faults, const Value& at, std::size_t most, Lone lone) {
  std::vector<Value> out;
  if (!at.node->is_sequence()) {
    if (lone == Lone::is_a_list_of_one && at.node->kind != YamlNode::Kind::null)
      out.push_back(at);
    else
      faults.add(*at.node, at.path, std::string(kind_of(*at.node)), "a list");
    return out;
  }
  for (std::size_t i = 0; i < at.node->items.size(); ++i) {
    const YamlNode* item = at.node->items[i];
    if (i >= most) {
      faults.add_silent(*item, at.path, "is too long",
                        "at most " + std::to_string(most) + " items");
      break;
    }
    if (item->kind == YamlNode::Kind::null)
      faults.add_silent(*item, indexed(at.path, i), "is empty", "a value");
    else
      out.push_back(Value{item, indexed(at.path, i)});
  }
  return out;
}

}  // namespace weir::policy
