#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "weir/clock.h"

namespace weir::render {

// Writes metrics in the Prometheus text format, version 0.0.4.
//
// Requires:    names of families and labels are ours and valid; each family is begun once and its
//              samples follow it.
// Guarantees:  label values may hold any bytes: quote, backslash and newline are escaped, and what
//              is not UTF-8 becomes U+FFFD, so that no value can end its line.
class Exposition {
 public:
  enum class Type : std::uint8_t { counter, gauge, histogram };
  struct Label {
    std::string_view name;
    std::string_view value;
  };
  using Labels = std::initializer_list<Label>;

  static constexpr std::string_view kContentType = "text/plain; version=0.0.4; charset=utf-8";

  explicit Exposition(std::string& out) : out_(out) {}

  void family(std::string_view name, Type type, std::string_view help);
  void sample(Labels labels, std::uint64_t value);
  void sample(std::uint64_t value) { sample({}, value); }
  // In seconds, exactly.
  void sample(Labels labels, Nanos value);
  void sample(Nanos value) { sample({}, value); }
  // One histogram of the family, of durations, in seconds. `counts` holds one number a bound, of
  // what lies in (bound before, bound], and one more for what lies above them all.
  void histogram(Label label, std::span<const Nanos> bounds, std::span<const std::uint64_t> counts,
                 Nanos sum);

 private:
  void begin(std::string_view suffix, Labels labels);

  std::string& out_;
  std::string_view family_;
};

}  // namespace weir::render
