#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace weir::store::redis {

enum class ReplyType : std::uint8_t { string, status, error, integer, nil, array };

// One value of a reply. An array is followed by its elements, each with what is below it.
struct ReplyNode {
  ReplyType type = ReplyType::nil;
  std::uint32_t elements = 0;  // array: how many follow
  std::int64_t integer = 0;    // integer
  std::uint32_t text_at = 0;   // string, status, error: where its bytes stand
  std::uint32_t text_size = 0;
};

// A whole reply, in the reader's memory: valid until the next one is taken.
class Reply {
 public:
  Reply(const std::vector<ReplyNode>& nodes, const std::string& text)
      : nodes_(&nodes), text_(&text) {}

  const ReplyNode& root() const noexcept { return nodes_->front(); }
  std::size_t size() const noexcept { return nodes_->size(); }
  // Element i of a flat array: one that holds no further array.
  const ReplyNode& at(std::size_t i) const noexcept { return (*nodes_)[i + 1]; }
  std::string_view text(const ReplyNode& node) const noexcept {
    return std::string_view(*text_).substr(node.text_at, node.text_size);
  }
  // Whether this is an array of `count` elements, none of them an array.
  bool is_flat_array(std::size_t count) const noexcept {
    return root().type == ReplyType::array && root().elements == count &&
           nodes_->size() == count + 1;
  }
  std::string_view error() const noexcept {
    return root().type == ReplyType::error ? text(root()) : std::string_view{};
  }

 private:
  const std::vector<ReplyNode>* nodes_;
  const std::string* text_;
};

// Cuts a stream of RESP2 bytes into replies: hiredis's parser, with flat memory that is used again
// for each reply instead of an allocation for each value.
//
// Guarantees:  holds at most `bounds.bytes` that it has not handed out; a stream that is not RESP,
// or
//              that promises more, is broken for good.
// Threads:     one at a time.
class ReplyReader {
 public:
  // What one reply may hold.
  struct Bounds {
    std::size_t bytes = std::size_t{1} << 20;
    std::size_t elements = 4096;  // of one array
  };

  enum class Next : std::uint8_t { reply, need_more, broken };

  ReplyReader() : ReplyReader(Bounds{}) {}
  explicit ReplyReader(Bounds bounds);
  ~ReplyReader();
  ReplyReader(const ReplyReader&) = delete;
  ReplyReader& operator=(const ReplyReader&) = delete;

  // False once the stream is broken.
  bool feed(std::string_view bytes);
  Next next();
  // Requires: next() said `reply`.
  Reply reply() const noexcept { return {nodes_, text_}; }
  // Forgets everything: a new connection begins.
  void reset();

 private:
  struct Parser;
  const Bounds bounds_;
  std::unique_ptr<Parser> parser_;
  std::vector<ReplyNode> nodes_;
  std::string text_;
  bool taken_ = false;
  bool broken_ = false;
};

}  // namespace weir::store::redis
