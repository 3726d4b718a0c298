#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "guard/rate_limiter.h"
#include "server/http/json_reader.h"

namespace weir::server::http {

// Reads the body of POST /json: a RateLimitRequest of Envoy's protocol in protobuf's JSON form.
//   {"domain": "shop", "hitsAddend": 1, "descriptors": [
//     {"entries": [{"key": "user", "value": "ada"}],
//      "limit": {"requestsPerUnit": 5, "unit": "MINUTE"}, "hitsAddend": "2"}]}
// Names in either spelling (hitsAddend, hits_addend), numbers also as strings, null for "not set",
// as protobuf has it; an unknown or repeated member is a fault. Values are any bytes, as JsonReader
// takes them.
//
// Threads:     one at a time; reuse it, it keeps its memory.
class RateLimitBody {
 public:
  // Fills in ask(), which holds as long as `text` and until the next read(). Returns what is wrong,
  // as a sentence.
  std::optional<std::string> read(std::string_view text);
  const guard::RateLimitAsk& ask() const noexcept { return ask_; }

 private:
  struct Part {
    std::size_t first = 0;  // of its entries
    guard::AskedDescriptor descriptor;
  };

  bool request_member(std::string_view name);
  bool descriptor_member(std::string_view name, Part& part);
  bool limit_member(std::string_view name, guard::LimitOverride& limit);
  bool entry_member(std::string_view name, guard::DescriptorEntry& entry);
  // Reads a message: each member once, in either spelling. `member` is given the camelCase one.
  template <class Member>
  bool message(std::string_view where, Member&& member);
  template <class Element>
  bool list(std::string_view where, Element&& element);
  bool text(std::string_view where, std::string_view& value);
  bool number(std::string_view where, std::uint64_t most, std::uint64_t& value);
  bool unit(guard::LimitUnit& unit);
  bool few(std::string_view where);
  // Takes a null where one stands.
  bool is_null();
  bool is(std::string_view where, JsonReader::Kind wanted);
  bool wrong(std::string_view where, std::string_view why);

  JsonReader reader_;
  std::string problem_;
  std::vector<guard::DescriptorEntry> entries_;
  std::vector<Part> parts_;
  std::vector<guard::AskedDescriptor> descriptors_;
  guard::RateLimitAsk ask_;
};

}  // namespace weir::server::http
