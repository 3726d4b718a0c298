#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <set>
#include <string>
#include <vector>

#include "policy/address.h"
#include "policy/identity.h"
#include "policy/key.h"
#include "policy/model.h"
#include "policy/path.h"
#include "policy/period.h"
#include "policy/short_form.h"
#include "weir/policy.h"

namespace weir::policy {
namespace {

// Words of a small alphabet that holds everything an encoding could trip over.
rc::Gen<std::string> word() {
  return rc::gen::container<std::string>(rc::gen::elementOf(std::string("ab:_ ,12\\")));
}

std::vector<Source> sources(const std::vector<std::string>& names) {
  std::vector<Source> out;
  for (const std::string& name : names)
    out.push_back({.kind = SourceKind::input, .name = name, .text = name});
  canonical_order(out);
  return out;
}

RC_GTEST_PROP(RuleIdentityProperty, IsOneTextForOneIdentityAndNoOther, ()) {
  const auto owners = *rc::gen::pair(word(), word());
  const auto first = *rc::gen::container<std::vector<std::string>>(word());
  const auto second = *rc::gen::container<std::vector<std::string>>(word());
  const PeriodSpec minute{.unit = PeriodUnit::minute};
  const std::string a =
      identity_text(Owner::route, owners.first, sources(first), minute, Algorithm::gcra);
  const std::string b =
      identity_text(Owner::route, owners.second, sources(second), minute, Algorithm::gcra);
  const bool same =
      owners.first == owners.second &&
      std::multiset(first.begin(), first.end()) == std::multiset(second.begin(), second.end());
  RC_ASSERT((a == b) == same);
}

RC_GTEST_PROP(KeyWriterProperty, GivesDifferentValuesDifferentKeys, ()) {
  const auto digester = ValueDigester::from_text("test");
  const auto write = [&](const std::vector<std::string>& values) {
    std::array<char, KeyWriter::kMaxKeyBytes> buffer;
    KeyWriter key(buffer.data(), 7);
    for (const std::string& value : values) key.value(value, digester);
    return std::string(key.view());
  };
  const auto values = *rc::gen::resize(8, rc::gen::container<std::vector<std::string>>(word()));
  const auto others = *rc::gen::resize(8, rc::gen::container<std::vector<std::string>>(word()));
  RC_PRE(values.size() <= KeyWriter::kMaxValues && others.size() <= KeyWriter::kMaxValues);
  RC_ASSERT((write(values) == write(others)) == (values == others));
}

RC_GTEST_PROP(ShortLimitProperty, ReadsWhatItWouldSay, ()) {
  const auto requests = *rc::gen::inRange<std::uint64_t>(0, kMaxUnits);
  const PeriodSpec per{.unit = static_cast<PeriodUnit>(*rc::gen::inRange(1, 8)),
                       .count = *rc::gen::inRange<std::uint32_t>(1, 1'000)};
  Problem problem;
  const auto limit = parse_short_limit(
      std::to_string(requests) + " per " + to_text(per) + " by ip, user", problem);
  RC_ASSERT(limit.has_value());
  RC_ASSERT(limit->requests == requests);
  RC_ASSERT(limit->per.unit == per.unit && limit->per.count == per.count);
}

RC_GTEST_PROP(AddressProperty, ReadsItsOwnText, ()) {
  Address address;
  for (auto& byte : address.bytes) byte = *rc::gen::element<std::uint8_t>(0, 0, 0xff, 1, 0x7f);
  RC_ASSERT(Address::parse(address.text()) == address);
  RC_ASSERT(Address::parse_hop("[" + address.text() + "]:80").has_value() != address.is_v4());
}

RC_GTEST_PROP(CidrProperty, HoldsItsAddressesAndSharesGroups, ()) {
  Address address;
  for (auto& byte : address.bytes) byte = *rc::gen::arbitrary<std::uint8_t>();
  RC_PRE(!address.is_v4());
  const auto prefix = *rc::gen::inRange<std::uint8_t>(0, 129);
  const auto block = network_of(address.text() + "/" + std::to_string(prefix));
  RC_ASSERT(block.has_value());
  RC_ASSERT(contains(*block, address));
  RC_ASSERT(Address{block->network} == grouped(address, prefix));
  if (prefix > 0) {
    Address other = address;
    const unsigned bit = static_cast<unsigned>(*rc::gen::inRange<int>(0, prefix));
    other.bytes[bit / 8] = static_cast<std::uint8_t>(other.bytes[bit / 8] ^ (0x80u >> (bit % 8)));
    RC_ASSERT(!contains(*block, other));
  }
}

// Whatever is done to a good file, the answer is a policy or faults with a place inside the file.
RC_GTEST_PROP(PolicyProperty, AnswersAnyTextWithAPolicyOrPlacedFaults, ()) {
  std::string text =
      "store: {url: 'redis://h', deadline: 20ms}\ninputs: [user]\nunmatched: allow\nroutes:\n  "
      "login:\n    match: {method: POST, path: /login}\n    limits:\n      - 5 per minute by ip\n  "
      "  "
      "  - {requests: 20, per: hour, by: [user], exempt: [ada], override: {bob: 3}}\n    protects: "
      "security\n    ceiling: 5 per second\ndefault: login\n";
  const auto edits = *rc::gen::inRange(0, 6);
  for (int i = 0; i < edits && !text.empty(); ++i) {
    const auto at = *rc::gen::inRange<std::size_t>(0, text.size());
    const auto piece = *rc::gen::elementOf(std::vector<std::string>{
        "",    " ",   "\n", ":",  "-", "[", "{", "}", "]",    "'",  "\"", "0", "99999999999",
        "&a ", "*a ", "~",  "\t", "!", "|", ">", "%", "\xc3", "? ", "# ", ", "});
    text.replace(at, *rc::gen::inRange<std::size_t>(0, 6), piece);
  }
  const auto policy = Policy::parse(text, "f");
  if (policy) return;
  RC_ASSERT(policy.error().code == ErrorCode::invalid_argument);
  RC_ASSERT(policy.error().message.starts_with("f:"));
}

}  // namespace
}  // namespace weir::policy
