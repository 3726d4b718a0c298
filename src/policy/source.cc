#include "policy/source.h"

#include <algorithm>

#include "base/same_text.h"
#include "policy/fault_list.h"

namespace weir::policy {
namespace {

struct BuiltIn {
  std::string_view name;
  SourceKind kind;
};

constexpr BuiltIn kAlone[] = {
    {"ip", SourceKind::ip}, {"path", SourceKind::path}, {"method", SourceKind::method}};
constexpr BuiltIn kNamed[] = {
    {"header", SourceKind::header}, {"query", SourceKind::query}, {"cookie", SourceKind::cookie}};

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// RFC 9110: token.
bool is_token(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return is_letter(c) || is_digit(c) ||
           std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
  });
}

std::string known_sources(const std::vector<std::string>& inputs) {
  std::string out = "ip, path, method, header:NAME, query:NAME, cookie:NAME";
  if (inputs.empty()) return out + ", or a name declared under inputs:";
  out += ", or a declared input (";
  for (std::size_t i = 0; i < inputs.size() && i < 8; ++i) out += (i > 0 ? ", " : "") + inputs[i];
  return out + (inputs.size() > 8 ? ", ...)" : ")");
}

std::optional<Source> parse_named(std::string_view text, std::size_t colon, Problem& problem) {
  const std::string_view kind = text.substr(0, colon);
  const std::string_view name = text.substr(colon + 1);
  for (const BuiltIn& named : kNamed) {
    if (kind != named.name) continue;
    const bool good = named.kind == SourceKind::query
                          ? !name.empty() && name.find_first_of(" \t,&=") == name.npos
                          : is_token(name);
    if (!good || name.size() > kMaxSourceNameBytes) {
      problem = {
          "names no possible " + std::string(kind),
          std::string(kind) + ":NAME, at most " + std::to_string(kMaxSourceNameBytes) + " bytes"};
      return std::nullopt;
    }
    Source out{.kind = named.kind, .name = std::string(name), .text = std::string(text)};
    if (named.kind == SourceKind::header)
      std::transform(out.name.begin(), out.name.end(), out.name.begin(), lower);
    return out;
  }
  return std::nullopt;
}

}  // namespace

std::string Source::canonical() const {
  return kind == SourceKind::header ? "header:" + name : text;
}

bool Source::is_called(std::string_view given) const noexcept {
  if (same_text(given, text)) return true;
  if (kind != SourceKind::header || given.size() != text.size()) return false;
  constexpr std::string_view kPrefix = "header:";
  return given.starts_with(kPrefix) &&
         std::equal(given.begin() + kPrefix.size(), given.end(), name.begin(), name.end(),
                    [](char a, char b) { return lower(a) == b; });
}

bool is_input_name(std::string_view name) {
  if (name.empty() || name.size() > kMaxSourceNameBytes) return false;
  if (!is_letter(name.front()) && name.front() != '_') return false;
  for (const BuiltIn& source : kAlone)
    if (source.name == name) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return is_letter(c) || is_digit(c) || c == '_' || c == '-' || c == '.';
  });
}

std::optional<Source> parse_source(std::string_view text, const std::vector<std::string>& inputs,
                                   Problem& problem) {
  problem = {};
  for (const BuiltIn& source : kAlone)
    if (source.name == text)
      return Source{.kind = source.kind, .name = {}, .text = std::string(text)};
  if (std::find(inputs.begin(), inputs.end(), text) != inputs.end())
    return Source{.kind = SourceKind::input, .name = std::string(text), .text = std::string(text)};
  const std::size_t colon = text.find(':');
  if (colon != text.npos) {
    if (auto source = parse_named(text, colon, problem); source || !problem.what.empty())
      return source;
  }
  std::vector<std::string_view> words = {"ip", "path", "method"};
  words.insert(words.end(), inputs.begin(), inputs.end());
  const std::string_view meant = nearest(text, words);
  problem.what = is_input_name(text) ? "is neither a source nor a declared input" : "is no source";
  if (!meant.empty()) problem.what += "; did you mean '" + std::string(meant) + "'?";
  problem.allowed = known_sources(inputs);
  return std::nullopt;
}

}  // namespace weir::policy
