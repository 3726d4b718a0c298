#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weir::policy {

// A value with '*' in it, each of which stands for any bytes, also none.
class Wildcard {
 public:
  explicit Wildcard(std::string_view pattern);

  static bool is_one(std::string_view value) { return value.find('*') != value.npos; }

  // Cost:        O(value * pieces), no allocation, no way back: the leftmost place of each piece is
  //              as good as any.
  bool fits(std::string_view value) const noexcept;
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  std::string begin_;                // before the first '*'
  std::string end_;                  // behind the last
  std::vector<std::string> middle_;  // between them, in order; none is empty
};

}  // namespace weir::policy
