#include "render/exposition.h"

#include <chrono>

#include "render/text.h"

namespace weir::render {
namespace {

constexpr Nanos kSecond = std::chrono::seconds(1);

std::string_view name_of(Exposition::Type type) {
  switch (type) {
    case Exposition::Type::counter:
      return "counter";
    case Exposition::Type::gauge:
      return "gauge";
    case Exposition::Type::histogram:
      return "histogram";
  }
  return "untyped";
}

void append_label_value(std::string& out, std::string_view value) {
  for (std::size_t i = 0; i < value.size();) {
    const std::size_t length = utf8_length(value, i);
    if (length == 0) {
      out += "\xef\xbf\xbd";
      ++i;
      continue;
    }
    if (value[i] == '\n') {
      out += "\\n";
    } else {
      if (value[i] == '"' || value[i] == '\\') out += '\\';
      out.append(value, i, length);
    }
    i += length;
  }
}

}  // namespace

void Exposition::family(std::string_view name, Type type, std::string_view help) {
  family_ = name;
  out_ += "# HELP ";
  out_ += name;
  out_ += ' ';
  out_ += help;
  out_ += "\n# TYPE ";
  out_ += name;
  out_ += ' ';
  out_ += name_of(type);
  out_ += '\n';
}

void Exposition::begin(std::string_view suffix, Labels labels) {
  out_ += family_;
  out_ += suffix;
  char before = '{';
  for (const Label& label : labels) {
    out_ += before;
    before = ',';
    out_ += label.name;
    out_ += "=\"";
    append_label_value(out_, label.value);
    out_ += '"';
  }
  out_ += labels.size() == 0 ? " " : "} ";
}

void Exposition::sample(Labels labels, std::uint64_t value) {
  begin("", labels);
  append_number(out_, value);
  out_ += '\n';
}

void Exposition::sample(Labels labels, Nanos value) {
  begin("", labels);
  append_decimal(out_, value, kSecond);
  out_ += '\n';
}

void Exposition::histogram(Label label, std::span<const Nanos> bounds,
                           std::span<const std::uint64_t> counts, Nanos sum) {
  std::uint64_t below = 0;
  std::string le;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    below += counts[i];
    le.clear();
    if (i < bounds.size()) {
      append_decimal(le, bounds[i], kSecond);
    } else {
      le = "+Inf";
    }
    begin("_bucket", {label, {"le", le}});
    append_number(out_, below);
    out_ += '\n';
  }
  begin("_sum", {label});
  append_decimal(out_, sum, kSecond);
  out_ += '\n';
  begin("_count", {label});
  append_number(out_, below);
  out_ += '\n';
}

}  // namespace weir::render
