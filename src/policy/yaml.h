#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "policy/fault_list.h"

namespace weir::policy {

// One node of a YAML file, with its place: the tree that every reader of policy files works on.
struct YamlNode {
  enum class Kind : std::uint8_t { null, scalar, sequence, map };
  using Field = std::pair<const YamlNode*, const YamlNode*>;

  Kind kind = Kind::null;
  bool quoted = false;                 // a scalar in quotes, or a block of text: never a number
  std::string text;                    // scalar
  int line = 0;                        // from 1
  int column = 0;                      // from 1, in bytes
  std::vector<const YamlNode*> items;  // sequence
  std::vector<Field> fields;           // map, in the file's order; keys are scalars, all different

  bool is_map() const { return kind == Kind::map; }
  bool is_sequence() const { return kind == Kind::sequence; }
  bool is_scalar() const { return kind == Kind::scalar; }
  // The value of a field; absent where the map has none.
  const YamlNode* find(std::string_view key) const;
};

struct YamlDocument {
  std::deque<YamlNode> nodes;  // owns them; addresses never change
  const YamlNode* root = nullptr;
};

// Bounds of a policy file. An alias counts as all the nodes that it stands for.
inline constexpr std::size_t kMaxFileBytes = 16u << 20;
inline constexpr std::size_t kMaxYamlDepth = 32;
inline constexpr std::size_t kMaxYamlNodes = 2'000'000;

// Native files have no merge keys (`<<`); files written for other readers may, and get their
// fields.
enum class MergeKeys : std::uint8_t { refused, read };

// Reads one YAML document. An empty text is a null root.
//
// Guarantees:  what YAML leaves open is a fault here: a key that stands twice, a second document,
//              tags, keys that are not plain text, bytes that are not UTF-8.
// Errors:      absent where the text cannot be read at all; the faults say why. A key that stands
//              twice is a fault too, but the tree is returned, so that other faults show with it.
std::optional<YamlDocument> read_yaml(std::string_view text, FaultList& faults,
                                      MergeKeys merge_keys = MergeKeys::refused);

}  // namespace weir::policy
