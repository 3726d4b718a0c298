#include "drill/load/key_chooser.h"

#include <algorithm>

namespace weir::drill {

std::string_view to_string(Distribution distribution) {
  switch (distribution) {
    case Distribution::uniform:
      return "uniform";
    case Distribution::zipf:
      return "zipf";
    case Distribution::hot:
      return "hot";
  }
  return "";
}

std::optional<Distribution> distribution_of(std::string_view text) {
  for (const auto each : {Distribution::uniform, Distribution::zipf, Distribution::hot}) {
    if (to_string(each) == text) return each;
  }
  return std::nullopt;
}

KeyChooser::KeyChooser(Distribution distribution, std::uint32_t count, std::uint64_t seed)
    : distribution_(distribution), random_(seed), any_(0, std::max(1U, count) - 1) {
  if (distribution != Distribution::zipf) return;
  up_to_.resize(std::max(1U, count));
  double sum = 0;
  for (std::size_t i = 0; i < up_to_.size(); ++i) {
    sum += 1.0 / static_cast<double>(i + 1);
    up_to_[i] = sum;
  }
  for (double& part : up_to_) part /= sum;
}

std::uint32_t KeyChooser::next() {
  switch (distribution_) {
    case Distribution::uniform:
      break;
    case Distribution::zipf: {
      const double at = std::uniform_real_distribution<double>(0, 1)(random_);
      const auto found = std::upper_bound(up_to_.begin(), up_to_.end(), at);
      return static_cast<std::uint32_t>(std::min<std::ptrdiff_t>(
          found - up_to_.begin(), static_cast<std::ptrdiff_t>(up_to_.size()) - 1));
    }
    case Distribution::hot:
      if (random_() % 10 != 0) return 0;
      break;
  }
  return any_(random_);
}

}  // namespace weir::drill
