#include "policy/envoy/request_story.h"

#include <optional>
#include <utility>
#include <vector>

#include "limit/numbers.h"
#include "policy/fault_list.h"

namespace weir::policy {
namespace {

struct Entry {
  std::string key;
  std::string value;
};

Error malformed(std::string_view why) {
  return Error{ErrorCode::invalid_argument,
               "the request " + std::string(why) + "; allowed: DOMAIN KEY=VALUE[,KEY=VALUE ...]"};
}

Result<std::vector<Entry>> parse_entries(std::string_view text) {
  std::vector<Entry> out;
  std::string word;
  std::optional<std::string> key;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const bool end = i == text.size();
    if (!end && text[i] == '\\' && i + 1 < text.size()) {
      word += text[++i];
    } else if (!end && text[i] == '=' && !key) {
      key = std::exchange(word, {});
    } else if (end || text[i] == ',') {
      if (!key || key->empty()) return malformed("has an entry without a key and '='");
      out.push_back({*std::exchange(key, std::nullopt), std::exchange(word, {})});
    } else {
      word += text[i];
    }
  }
  return out;
}

std::string listed(const std::vector<std::string>& words) {
  constexpr std::size_t kShown = 8;
  std::string out;
  for (std::size_t i = 0; i < words.size() && i < kShown; ++i)
    out += (i > 0 ? ", " : "") + shown(words[i]);
  return words.size() > kShown ? out + ", ..." : out;
}

std::string limit_text(const Domain& domain, const DescriptorLimit& limit) {
  std::string out = "meets the limit of " + shown(limit.path);
  out += " (" + limit.place.file + ":" + std::to_string(limit.place.line) + "): ";
  if (limit.unlimited()) return out + "unlimited\n";
  const Rule& rule = domain.scopes[limit.scope].route.rules[*limit.rule];
  out += to_text(rule.numbers) + ", " + std::string(to_string(rule.numbers.algorithm));
  if (limit.shadow) out += "; shadow mode: counted, never denies";
  if (limit.quota) out += "; quota mode";
  for (const DescriptorLevel& level : limit.levels)
    if (level.shares)
      out += "; all values of " + shown(level.key) + " like " + shown(level.value) +
             " are one counter";
  for (const std::string& name : limit.replaces) out += "; replaces " + shown(name);
  return out + "\n";
}

std::string step_text(const Domain& domain, std::uint32_t from, const Entry& entry,
                      std::uint32_t to) {
  std::string out =
      "  " + shown(entry.key) + "=" + shown(entry.value) + "  fits " + domain.way_to(to);
  const std::vector<std::string> others = domain.passed_over(from, entry.key, entry.value);
  return out + (others.empty() ? "" : ", which comes before " + listed(others)) + "\n";
}

std::string dead_end(const Domain& domain, std::uint32_t node, const Entry& entry) {
  const std::string said = "  " + shown(entry.key) + "=" + shown(entry.value) + "  ";
  const std::vector<std::string> others = domain.children(node);
  if (others.empty()) return said + "is more than the way has: nothing stands below\n";
  return said + "fits nothing here; there is: " + listed(others) + "\n";
}

}  // namespace

Result<std::string> request_story(const Model& model, std::string_view request) {
  const std::size_t space = request.find(' ');
  const std::string_view name = request.substr(0, space);
  if (name.empty() || space == request.npos) return malformed("has no domain, or no entries");
  const auto entries = parse_entries(request.substr(space + 1));
  if (!entries) return entries.error();
  for (const Domain& domain : model.domains) {
    if (domain.name != name) continue;
    std::string out = "domain " + domain.name + "\n";
    std::uint32_t node = 0;
    for (const Entry& entry : *entries) {
      const auto next = domain.child(node, entry.key, entry.value);
      if (!next) return out + dead_end(domain, node, entry) + "meets no limit: allowed\n";
      out += step_text(domain, std::exchange(node, *next), entry, *next);
    }
    const auto limit = domain.limit_of(node);
    if (limit) return out + limit_text(domain, domain.limits[*limit]);
    const std::vector<std::string> below = domain.children(node);
    out += "meets no limit: there is none here";
    return out + (below.empty() ? "" : ", only below, for " + listed(below)) + "; allowed\n";
  }
  return Error{ErrorCode::not_found, "the policy has no domain '" + shown(name) + "'"};
}

}  // namespace weir::policy
