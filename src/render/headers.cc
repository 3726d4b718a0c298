#include "render/headers.h"

#include <algorithm>
#include <chrono>
#include <string_view>

#include "base/random.h"
#include "render/status.h"
#include "render/text.h"

namespace weir::render {
namespace {

using std::chrono::seconds;

constexpr std::string_view kLineEnd = "\r\n";

bool denied_by(const RuleReport& rule) noexcept {
  return !rule.fits && !rule.shadow;
}

// A rule that never fits has the longest wait of all.
bool waits_longer(const RuleReport& a, const RuleReport& b) noexcept {
  if (a.never_fits != b.never_fits) return a.never_fits;
  return a.retry_after.value_or(Nanos::zero()) > b.retry_after.value_or(Nanos::zero());
}

bool closer_to_exhaustion(const RuleReport& a, const RuleReport& b) noexcept {
  if (a.remaining.has_value() != b.remaining.has_value()) return a.remaining.has_value();
  if (a.remaining != b.remaining) return *a.remaining < *b.remaining;
  return a.reset_after.value_or(Nanos::zero()) > b.reset_after.value_or(Nanos::zero());
}

// How far away the Reset of `rule` lies; none where waiting never helps: a Reset of 0 would send
// whoever goes by it back at once.
std::optional<Nanos> reset_of(const Decision& decision, const RuleReport& rule) noexcept {
  if (!decision.allowed() && denied_by(rule)) {
    if (rule.never_fits) return std::nullopt;
    if (rule.retry_after) return rule.retry_after;
  }
  return rule.reset_after;
}

// RFC 9651 String.
void append_structured_string(std::string& out, std::string_view text) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  out += '"';
  std::size_t plain = 0;  // start of the run that goes out as it is
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const bool encoded = c < 0x20 || c > 0x7e || c == '%';
    if (!encoded && c != '"' && c != '\\') continue;
    out.append(text, plain, i - plain);
    plain = i;
    if (!encoded) {
      out += '\\';
      continue;
    }
    out += '%';
    out += kHex[c >> 4];
    out += kHex[c & 15];
    ++plain;
  }
  out.append(text, plain);
  out += '"';
}

void append_line(std::string& out, std::string_view name, std::uint64_t value) {
  out += name;
  append_number(out, value);
  out += kLineEnd;
}

void append_draft10(std::string& out, const Decision& decision, const RuleReport& described) {
  out += "RateLimit-Policy: ";
  bool first = true;
  for (const RuleReport& rule : decision.rules()) {
    if (rule.shadow) continue;
    if (!first) out += ", ";
    first = false;
    append_structured_string(out, rule.rule);
    out += ";q=";
    append_number(out, rule.limit);
    // The draft knows whole seconds only; a window it cannot say is left out.
    if (rule.period >= seconds(1) && rule.period % seconds(1) == Nanos::zero()) {
      out += ";w=";
      append_number(out, ceil_to(rule.period, seconds(1)));
    }
  }
  out += kLineEnd;
  if (!described.remaining) return;  // `r` is required: without it there is nothing to say
  out += "RateLimit: ";
  append_structured_string(out, described.rule);
  out += ";r=";
  append_number(out, *described.remaining);
  if (const auto reset = reset_of(decision, described)) {
    out += ";t=";
    append_number(out, ceil_to(*reset, seconds(1)));
  }
  out += kLineEnd;
}

void append_delta(std::string& out, const Decision& decision, const RuleReport& described) {
  append_line(out, "RateLimit-Limit: ", described.limit);
  if (described.remaining) append_line(out, "RateLimit-Remaining: ", *described.remaining);
  if (const auto reset = reset_of(decision, described)) {
    append_line(out, "RateLimit-Reset: ", ceil_to(*reset, seconds(1)));
  }
}

void append_epoch(std::string& out, const Decision& decision, const RuleReport& described) {
  append_line(out, "X-RateLimit-Limit: ", described.limit);
  if (described.remaining) append_line(out, "X-RateLimit-Remaining: ", *described.remaining);
  const auto reset = reset_of(decision, described);
  const Nanos decided = decision.decided_at.time_since_epoch();
  if (!reset || decided <= Nanos::zero()) return;
  // Rounded apart, so that no sum can overflow; at most one second later than the sum would be.
  const std::uint64_t whole = ceil_to(*reset, seconds(1));
  append_line(out, "X-RateLimit-Reset: ", ceil_to(decided, seconds(1)) + whole);
}

}  // namespace

const RuleReport* described_rule(const Decision& decision) noexcept {
  const RuleReport* denying = nullptr;
  const RuleReport* closest = nullptr;
  for (const RuleReport& rule : decision.rules()) {
    if (rule.shadow) continue;
    if (!rule.fits && (denying == nullptr || waits_longer(rule, *denying))) denying = &rule;
    if (closest == nullptr || closer_to_exhaustion(rule, *closest)) closest = &rule;
  }
  return !decision.allowed() && denying != nullptr ? denying : closest;
}

std::optional<std::uint64_t> retry_after_seconds(const Decision& decision) noexcept {
  if (decision.allowed() || !decision.retry_after) return std::nullopt;
  const int status = http_status(decision);
  if (status != 429 && status != 503) return std::nullopt;
  const std::uint64_t least =
      std::max<std::uint64_t>(1, ceil_to(*decision.retry_after, seconds(1)));
  if (status == 429) return least;
  // Up to a quarter more, at least one second's worth, so that those refused together do not
  // come back together.
  const std::uint64_t width = std::max<std::uint64_t>(1, least / 4);
  const auto seed = static_cast<std::uint64_t>(decision.decided_at.time_since_epoch().count());
  return least + spread_bits(seed) % (width + 1);
}

void append_headers(std::string& out, const Decision& decision) {
  if (decision.profiles != 0) {
    if (const RuleReport* rule = described_rule(decision)) {
      if (decision.profiles & kHeadersDraft10) append_draft10(out, decision, *rule);
      if (decision.profiles & kHeadersDelta) append_delta(out, decision, *rule);
      if (decision.profiles & kHeadersEpoch) append_epoch(out, decision, *rule);
    }
  }
  if (const auto wait = retry_after_seconds(decision)) append_line(out, "Retry-After: ", *wait);
  if (degraded(decision)) {
    out += "Weir-Rung: ";
    out += to_string(decision.rung);
    out += kLineEnd;
  }
  if (!decision.allowed()) out += "Cache-Control: no-store\r\n";
}

void append_proxy_headers(std::string& out, const Decision& decision) {
  if (decision.allowed() && decision.profiles == 0 && !remarkable(decision)) return;
  append_headers(out, decision);
  if (decision.verdict != Verdict::refused) return;
  out += "Weir-Reason: ";
  out += to_string(decision.reason);
  out += kLineEnd;
}

std::vector<std::pair<std::string, std::string>> http_headers(const Decision& decision) {
  std::string lines;
  append_headers(lines, decision);
  std::vector<std::pair<std::string, std::string>> pairs;
  for (std::string_view rest = lines; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find(kLineEnd));
    rest.remove_prefix(line.size() + kLineEnd.size());
    const std::size_t colon = line.find(": ");
    pairs.emplace_back(line.substr(0, colon), line.substr(colon + 2));
  }
  return pairs;
}

}  // namespace weir::render
