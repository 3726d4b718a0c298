#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "guard/rate_limiter.h"
#include "server/http/json_reader.h"
#include "weir/guard.h"

namespace weir::server::http {

// Reads the body of POST /v1/check:
//   {"route": "login", "descriptors": {"ip": "192.0.2.7"}, "cost": 1}
//   {"request": {"method": "GET", "path": "/a?b", "peer": "192.0.2.7", "headers": {"X-A": "b"}},
//    "cost": 1}
//   {"domain": "shop", "descriptors": [[{"key": "user", "value": "ada"}]], "cost": 1}
// `descriptors`, `headers` and `cost` may be left out; a header that came several times is an array
// of strings. Strict: an unknown, repeated or missing member and a value of another type is a
// fault.
//
// Threads:     one at a time; reuse it, it keeps its memory.
class CheckBody {
 public:
  static constexpr std::size_t kMaxHeaders = 256;

  // Fills the members below, which live as long as `text` and until the next read(). Returns what
  // is wrong, as a sentence that names the field.
  std::optional<std::string> read(std::string_view text);

  bool by_request = false;  // `request` was given, otherwise `route`, or:
  bool by_domain = false;   // `domain` was given; ask() has it all
  std::string_view route;
  std::vector<Descriptor> descriptors;
  std::string_view method;
  std::string_view path;
  std::string_view peer;
  std::vector<Descriptor> headers;
  std::uint64_t cost = 1;
  const guard::RateLimitAsk& ask() const noexcept { return ask_; }

 private:
  enum Member : unsigned {
    kRoute = 1,
    kDescriptors = 2,
    kRequest = 4,
    kCost = 8,
    kMethod = 16,
    kPath = 32,
    kPeer = 64,
    kHeaders = 128,
    kDomain = 256,
    kLists = 512,  // `descriptors` is an array of lists
  };

  bool top_member(std::string_view key);
  bool request_member(std::string_view key);
  bool read_descriptors();
  bool read_named();
  bool read_lists();
  bool read_entry();
  bool read_headers();
  bool read_header(std::string_view name);
  bool read_cost();
  bool read_text(std::string_view field, std::string_view& value);
  bool first(Member member, std::string_view field);
  bool is(std::string_view field, JsonReader::Kind wanted);
  bool complete();
  bool complete_domain();
  bool wrong(std::string_view field, std::string_view why);

  JsonReader reader_;
  std::vector<guard::DescriptorEntry> entries_;
  std::vector<std::size_t> firsts_;  // where each list of them begins
  std::vector<guard::AskedDescriptor> asked_;
  guard::RateLimitAsk ask_;
  unsigned seen_ = 0;
  std::string problem_;
};

}  // namespace weir::server::http
