#include "policy/identity.h"

#include <algorithm>

#include "base/key_digest.h"
#include "policy/duration.h"

namespace weir::policy {
namespace {

void append_counted(std::string& out, std::string_view text) {
  out += ' ';
  out += std::to_string(text.size());
  out += ':';
  out += text;
}

// Calendar windows are not the windows of their nominal length; everything else is its length.
std::string period_text(const PeriodSpec& per, Algorithm algorithm) {
  const auto period = period_of(per, algorithm);
  if (!period) return to_text(per);
  return period->calendar == limit::Calendar::none ? to_text(period->length) : to_text(per);
}

std::string_view owner_text(Owner owner) {
  switch (owner) {
    case Owner::route:
      return "route";
    case Owner::name:
      return "name";
    case Owner::domain:
      return "domain";
  }
  return "route";
}

}  // namespace

std::string identity_text(Owner owner, std::string_view name, std::span<const Source> by,
                          const PeriodSpec& per, Algorithm algorithm) {
  std::string out(owner_text(owner));
  append_counted(out, name);
  if (!by.empty()) out += " by";
  for (const Source& source : by) append_counted(out, source.canonical());
  out += " per " + period_text(per, algorithm) + " ";
  out += to_string(algorithm);
  return out;
}

std::uint64_t identity_hash(std::string_view identity_text) {
  // A fixed secret: identities are the operator's words, and every worker must reach the same.
  constexpr KeyHasher::Secret kSecret = {'w', 'e', 'i', 'r', ' ', 'i', 'd', 'e',
                                         'n', 't', 'i', 't', 'y', ' ', 'v', '1'};
  return KeyHasher(kSecret)(identity_text).lo;
}

void canonical_order(std::vector<Source>& by) {
  std::sort(by.begin(), by.end(),
            [](const Source& a, const Source& b) { return a.canonical() < b.canonical(); });
}

}  // namespace weir::policy
