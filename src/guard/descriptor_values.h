#pragma once

#include <cstring>
#include <span>

#include "base/same_text.h"
#include "guard/plan.h"

namespace weir::guard {

// Values that a caller gives by name, each under the text of its source: "ip", "header:X-API-Key",
// "user".
class DescriptorValues final : public Values {
 public:
  explicit DescriptorValues(std::span<const Descriptor> descriptors) : descriptors_(descriptors) {}

  // Where a name is given twice, the first one holds.
  std::string_view value(const policy::Source& source) const noexcept override {
    for (const Descriptor& d : descriptors_) {
      const bool is_header = source.kind == policy::SourceKind::header;
      if (is_header ? source.is_called(d.name) : same_text(d.name, source.text))
        return d.value.data() != nullptr ? d.value : std::string_view("", 0);
    }
    return {};
  }
  std::string_view fault() const noexcept override {
    if (descriptors_.size() > kMaxDescriptors) return "there are more than 64 values";
    for (const Descriptor& d : descriptors_) {
      if (d.value.size() > kMaxValueBytes) return "a value is above 1 MiB";
    }
    return {};
  }

 private:
  std::span<const Descriptor> descriptors_;
};

}  // namespace weir::guard
