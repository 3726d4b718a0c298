#include "policy/envoy/metadata.h"

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

namespace weir::policy {
namespace {

using Json = nlohmann::ordered_json;

Json scalar(const YamlNode& node) {
  const std::string& text = node.text;
  if (node.quoted) return text;
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  const char* const last = text.data() + text.size();
  std::int64_t whole = 0;
  if (const auto [end, error] = std::from_chars(text.data(), last, whole);
      error == std::errc{} && end == last)
    return whole;
  // Only what looks like a number: "inf" and "nan" are words.
  double real = 0;
  if (text.find_first_not_of("0123456789+-.eE") == std::string::npos)
    if (const auto [end, error] = std::from_chars(text.data(), last, real);
        error == std::errc{} && end == last && std::isfinite(real))
      return real;
  return text;
}

Json value(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::null:
      return nullptr;
    case YamlNode::Kind::scalar:
      return scalar(node);
    case YamlNode::Kind::sequence: {
      Json out = Json::array();
      for (const YamlNode* item : node.items) out.push_back(value(*item));
      return out;
    }
    case YamlNode::Kind::map: {
      Json out = Json::object();
      for (const auto& [key, field] : node.fields) out[key->text] = value(*field);
      return out;
    }
  }
  return nullptr;
}

}  // namespace

std::string json_of(const YamlNode& node) {
  return value(node).dump();
}

}  // namespace weir::policy
