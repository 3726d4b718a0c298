#include "policy/envoy/wildcard.h"

namespace weir::policy {

Wildcard::Wildcard(std::string_view pattern) : text_(pattern) {
  const std::size_t first = pattern.find('*');
  const std::size_t last = pattern.rfind('*');
  begin_ = pattern.substr(0, first);
  if (first == pattern.npos) return;
  end_ = pattern.substr(last + 1);
  for (std::size_t at = first + 1; at < last;) {
    const std::size_t next = pattern.find('*', at);
    if (next > at) middle_.emplace_back(pattern.substr(at, next - at));
    at = next + 1;
  }
}

bool Wildcard::fits(std::string_view value) const noexcept {
  if (value.size() < begin_.size() + end_.size()) return false;
  if (!value.starts_with(begin_) || !value.ends_with(end_)) return false;
  value = value.substr(begin_.size(), value.size() - begin_.size() - end_.size());
  for (const std::string& piece : middle_) {
    const std::size_t at = value.find(piece);
    if (at == value.npos) return false;
    value.remove_prefix(at + piece.size());
  }
  return true;
}

}  // namespace weir::policy
