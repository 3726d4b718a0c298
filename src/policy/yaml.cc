#include "policy/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <istream>
#include <map>
#include <streambuf>
#include <unordered_map>
#include <unordered_set>

#include "policy/field_reader.h"
#include "policy/utf8.h"

namespace weir::policy {
namespace {

// Ends the parse at the first thing that makes the rest meaningless.
struct Abandoned {};

class TreeBuilder final : public YAML::EventHandler {
 public:
  TreeBuilder(YamlDocument& document, FaultList& faults, MergeKeys merge_keys)
      : document_(document), faults_(faults), merge_keys_(merge_keys) {}

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    add(mark, YamlNode::Kind::null, anchor, 1);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto known = anchors_.find(anchor);
    if (known == anchors_.end()) abandon(mark, "an alias stands inside what it names", "");
    const auto [node, weight] = known->second;
    if (open_.size() + depth_.at(node) > kMaxYamlDepth) too_deep(mark);
    count(mark, weight);
    attach(node, mark);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_tag(mark, tag);
    YamlNode& node = add(mark, YamlNode::Kind::scalar, anchor, 1, /*attach_now=*/false);
    node.text = value;
    node.quoted = tag == "!";
    attach(&node, mark);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, YamlNode::Kind::sequence);
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, YamlNode::Kind::map);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    YamlNode* node;
    YAML::anchor_t anchor;
    std::size_t weight_before;
    std::size_t depth_below = 0;
    const YamlNode* key = nullptr;                   // a map's key that waits for its value
    std::unordered_map<std::string_view, int> seen;  // keys of a map -> line
    bool merging = false;                            // the key is `<<`
    std::vector<const YamlNode*> merged;             // what `<<` names
  };

  [[noreturn]] void abandon(const YAML::Mark& mark, std::string problem, std::string allowed) {
    faults_.add(mark.line + 1, mark.column + 1, "", "", std::move(problem), std::move(allowed));
    throw Abandoned{};
  }
  [[noreturn]] void too_deep(const YAML::Mark& mark) {
    abandon(mark, "is nested too deep", "at most " + std::to_string(kMaxYamlDepth) + " levels");
  }

  void refuse_tag(const YAML::Mark& mark, const std::string& tag) {
    if (tag.empty() || tag == "?" || tag == "!") return;
    abandon(mark, "carries a YAML tag", "values without tags");
  }

  void count(const YAML::Mark& mark, std::size_t nodes) {
    weight_ += nodes;
    if (weight_ > kMaxYamlNodes)
      abandon(mark, "makes the file too large",
              "at most " + std::to_string(kMaxYamlNodes) + " values, aliases written out");
  }

  YamlNode& add(const YAML::Mark& mark, YamlNode::Kind kind, YAML::anchor_t anchor,
                std::size_t weight, bool attach_now = true) {
    count(mark, weight);
    YamlNode& node = document_.nodes.emplace_back();
    node.kind = kind;
    node.line = mark.line + 1;
    node.column = mark.column + 1;
    if (anchor != 0 && kind != YamlNode::Kind::map && kind != YamlNode::Kind::sequence)
      remember(anchor, &node, weight, 0);
    if (attach_now) attach(&node, mark);
    return node;
  }

  void remember(YAML::anchor_t anchor, const YamlNode* node, std::size_t weight,
                std::size_t depth) {
    anchors_[anchor] = {node, weight};
    depth_[node] = depth;
  }

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
            YamlNode::Kind kind) {
    refuse_tag(mark, tag);
    if (open_.size() >= kMaxYamlDepth) too_deep(mark);
    const std::size_t before = weight_;
    YamlNode& node = add(mark, kind, anchor, 1, /*attach_now=*/false);
    if (!open_.empty() && open_.back().node->is_map() && open_.back().key == nullptr)
      abandon(mark, "a key is a list or a map", "plain text as the key");
    open_.push_back(Open{.node = &node, .anchor = anchor, .weight_before = before});
  }

  void close() {
    for (const YamlNode* maps : open_.back().merged) merge(open_.back(), *maps);
    Open done = std::move(open_.back());
    open_.pop_back();
    const std::size_t depth = done.depth_below + 1;
    if (done.anchor != 0) remember(done.anchor, done.node, weight_ - done.weight_before, depth);
    YAML::Mark mark;
    mark.line = done.node->line - 1;
    mark.column = done.node->column - 1;
    attach(done.node, mark);
    if (!open_.empty()) open_.back().depth_below = std::max(open_.back().depth_below, depth);
  }

  void attach(const YamlNode* node, const YAML::Mark& mark) {
    if (open_.empty()) {
      document_.root = node;
      return;
    }
    Open& parent = open_.back();
    if (parent.node->is_sequence()) {
      parent.node->items.push_back(node);
    } else if (parent.key == nullptr) {
      take_key(parent, node, mark);
    } else if (parent.merging) {
      parent.merged.push_back(node);
      parent.merging = false;
      parent.key = nullptr;
    } else {
      parent.node->fields.emplace_back(parent.key, node);
      parent.key = nullptr;
    }
  }

  void take_key(Open& parent, const YamlNode* key, const YAML::Mark& mark) {
    if (!key->is_scalar()) abandon(mark, "a key is empty", "plain text as the key");
    if (key->text == "<<" && !key->quoted) {
      if (merge_keys_ == MergeKeys::refused)
        abandon(mark, "is a merge key, which policy files do not have", "the fields written out");
      parent.merging = true;
      parent.key = key;
      return;
    }
    const auto [first, fresh] = parent.seen.emplace(key->text, key->line);
    if (!fresh)
      faults_.add(mark.line + 1, mark.column + 1, joined(path(), key->text), "",
                  "stands twice; the first one is on line " + std::to_string(first->second),
                  "each field once");
    parent.key = key;
  }

  // Adds the fields of a map, or of each map of a list, that the open one does not have itself.
  void merge(Open& parent, const YamlNode& maps) {
    for (const YamlNode* map : maps.items) merge(parent, *map);
    for (const auto& [key, value] : maps.fields)
      if (parent.seen.emplace(key->text, key->line).second)
        parent.node->fields.emplace_back(key, value);
    if (maps.is_scalar())
      faults_.add(maps, joined(path(), "<<"), "is no map", "a map, or a list of maps");
  }

  // The path of the map that is open now.
  std::string path() const {
    std::string out;
    for (std::size_t i = 0; i + 1 < open_.size(); ++i)
      out = open_[i].key != nullptr ? joined(out, open_[i].key->text)
                                    : indexed(out, open_[i].node->items.size());
    return out;
  }

  YamlDocument& document_;
  FaultList& faults_;
  MergeKeys merge_keys_;
  std::vector<Open> open_;
  std::unordered_map<YAML::anchor_t, std::pair<const YamlNode*, std::size_t>> anchors_;
  std::unordered_map<const YamlNode*, std::size_t> depth_;
  std::size_t weight_ = 0;
};

// yaml-cpp reads a stream; this one shows it the text without a copy.
class TextBuffer final : public std::streambuf {
 public:
  explicit TextBuffer(std::string_view text) {
    char* begin = const_cast<char*>(text.data());
    setg(begin, begin, begin + text.size());
  }
};

// Whether a line, counted from 0, begins with blanks of which one is a tab.
bool tab_indents(std::string_view text, int line) {
  for (; line > 0; --line) text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  const std::size_t tab = text.find('\t');
  return tab != text.npos && text.find_first_not_of(" \t") > tab;
}

void report(const YAML::Exception& e, std::string_view text, FaultList& faults) {
  const bool placed = !e.mark.is_null();
  const bool in_flow = e.msg.find("flow") != std::string::npos;  // where a tab is but a blank
  if (placed && !in_flow && tab_indents(text, e.mark.line)) {
    faults.add(e.mark.line + 1, 1, "", "", "is not YAML: the line is indented with a tab",
               "spaces");
    return;
  }
  faults.add(placed ? e.mark.line + 1 : 0, placed ? e.mark.column + 1 : 0, "", "",
             "is not YAML: " + e.msg, "");
}

bool acceptable_bytes(std::string_view text, FaultList& faults) {
  if (text.size() > kMaxFileBytes) {
    faults.add(0, 0, "", "", "the file has " + std::to_string(text.size()) + " bytes",
               "at most " + std::to_string(kMaxFileBytes));
    return false;
  }
  const std::optional<std::size_t> bad = first_not_text(text);
  if (!bad) return true;
  const std::string_view before = text.substr(0, *bad);
  const auto line = static_cast<int>(std::count(before.begin(), before.end(), '\n')) + 1;
  const std::size_t start = before.rfind('\n') + 1;  // npos + 1 is 0
  faults.add(line, static_cast<int>(*bad - start) + 1, "", "", "holds a byte that is not text",
             "UTF-8 without control characters");
  return false;
}

}  // namespace

const YamlNode* YamlNode::find(std::string_view key) const {
  for (const auto& [name, value] : fields)
    if (name->text == key) return value;
  return nullptr;
}

std::optional<YamlDocument> read_yaml(std::string_view text, FaultList& faults,
                                      MergeKeys merge_keys) {
  if (!acceptable_bytes(text, faults)) return std::nullopt;
  YamlDocument document;
  try {
    TextBuffer buffer(text);
    std::istream stream(&buffer);
    YAML::Parser parser(stream);
    TreeBuilder builder(document, faults, merge_keys);
    if (!parser.HandleNextDocument(builder) || document.root == nullptr) {
      document.root = &document.nodes.emplace_back();
      return document;
    }
    YamlDocument rest;
    TreeBuilder second(rest, faults, merge_keys);
    if (parser.HandleNextDocument(second)) {
      const YamlNode* at = rest.root;
      faults.add(at != nullptr ? at->line : 0, at != nullptr ? at->column : 0, "", "",
                 "begins a second document", "one document a file");
      return std::nullopt;
    }
  } catch (const Abandoned&) {
    return std::nullopt;
  } catch (const YAML::Exception& e) {
    report(e, text, faults);
    return std::nullopt;
  }
  return document;
}

}  // namespace weir::policy
