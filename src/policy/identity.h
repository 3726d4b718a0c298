#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "policy/period.h"
#include "policy/source.h"
#include "weir/limits.h"

namespace weir::policy {

// Whose counters they are: a route's or domain's, or shared by all rules of one given name.
enum class Owner : std::uint8_t { route, name, domain };

// The canonical text of a rule's identity:
//
//   route 5:login by 2:ip 4:user per 60s gcra
//
// Guarantees:  structural: every name stands behind its length, so no two different identities
//              have one text. Never the limit's size, its burst, its place, or a node.
// Requires:    `by` in canonical order (see canonical_order).
std::string identity_text(Owner owner, std::string_view name, std::span<const Source> by,
                          const PeriodSpec& per, Algorithm algorithm);

// 64 bits that stand for the text in keys; the same in every process and version.
std::uint64_t identity_hash(std::string_view identity_text);

// Sorts sources by their canonical text, so that the order in a file means nothing.
void canonical_order(std::vector<Source>& by);

}  // namespace weir::policy
