#include "weir/decision.h"

#include <cstring>
#include <new>

#include "render/decision_json.h"
#include "render/headers.h"
#include "render/status.h"

namespace weir {

void Decision::copy_scalars(const Decision& other) noexcept {
  verdict = other.verdict;
  rung = other.rung;
  reason = other.reason;
  profiles = other.profiles;
  replayed = other.replayed;
  route = other.route;
  fault = other.fault;
  cost = other.cost;
  retry_after = other.retry_after;
  decided_at = other.decided_at;
  count_ = other.count_;
}

Decision& Decision::operator=(const Decision& other) {
  if (this == &other) return *this;
  if (other.count_ > kInlineRules) {
    spilled_ = other.spilled_;
  } else {
    spilled_.clear();
    std::memcpy(inline_, other.inline_, other.count_ * sizeof(RuleReport));
  }
  receipt_keys = other.receipt_keys;
  copy_scalars(other);
  return *this;
}

Decision& Decision::operator=(Decision&& other) noexcept {
  if (this == &other) return *this;
  spilled_ = std::move(other.spilled_);
  receipt_keys = std::move(other.receipt_keys);
  if (other.count_ <= kInlineRules) {
    std::memcpy(inline_, other.inline_, other.count_ * sizeof(RuleReport));
  }
  copy_scalars(other);
  other.spilled_.clear();
  other.count_ = 0;
  return *this;
}

std::span<const RuleReport> Decision::rules() const noexcept {
  if (count_ > kInlineRules) return spilled_;
  return {std::launder(reinterpret_cast<const RuleReport*>(inline_)), count_};
}

std::span<RuleReport> Decision::rules() noexcept {
  if (count_ > kInlineRules) return spilled_;
  return {std::launder(reinterpret_cast<RuleReport*>(inline_)), count_};
}

RuleReport& Decision::add(const RuleReport& report) {
  if (count_ < kInlineRules) {
    return *new (inline_ + count_++ * sizeof(RuleReport)) RuleReport(report);
  }
  const RuleReport kept = report;  // `report` may be one of ours, and spilled_ may move
  if (count_ == kInlineRules) {
    const auto held = rules();
    spilled_.assign(held.begin(), held.end());
  }
  spilled_.push_back(kept);
  count_ = spilled_.size();
  return spilled_.back();
}

int Decision::http_status() const noexcept {
  return render::http_status(*this);
}

std::vector<std::pair<std::string, std::string>> Decision::http_headers() const {
  return render::http_headers(*this);
}

std::string Decision::json() const {
  std::string out;
  out.reserve(256);
  render::append_decision_json(out, *this);
  return out;
}

}  // namespace weir
