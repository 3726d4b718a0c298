#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weir::drill {

// One gRPC-framed RateLimitRequest, made again for each key by writing the key's digits over those
// of the last one.
class RlsAsk {
 public:
  // `descriptors` equal descriptors of one entry `key`, but for the first they end in their number.
  RlsAsk(const std::string& domain, const std::string& key, std::uint32_t descriptors);

  // The request for that key; holds until the next.
  std::string_view for_key(std::uint32_t number);

 private:
  std::string bytes_;
  std::vector<std::size_t> values_;  // where each descriptor's value begins
};

inline constexpr int kOk = 1;
inline constexpr int kOverLimit = 2;
// The overall code of a framed RateLimitResponse: kOk, kOverLimit, 0 where it says none, -1 where
// it cannot be read.
int overall_code_of(std::string_view framed);

// A framed RateLimitRequest of these descriptors, each a list of keys and values.
using DescriptorTexts = std::vector<std::vector<std::pair<std::string, std::string>>>;
std::string rls_request(const std::string& domain, const DescriptorTexts& descriptors,
                        std::uint32_t hits);
// The same where every descriptor says for itself how many hits it is about; 0 only looks.
std::string rls_request_of_each(const std::string& domain, const DescriptorTexts& descriptors,
                                std::uint64_t hits);

// A RateLimitResponse, as far as two services can be compared by it. Names are protobuf's.
struct RlsAnswer {
  struct Status {
    std::string code;
    bool limited = false;  // a limit was met: the three behind it say which
    std::uint64_t requests_per_unit = 0;
    std::string unit;
    std::string name;
    std::uint64_t remaining = 0;
    std::optional<std::int64_t> reset_seconds;
  };
  std::string overall;
  std::vector<Status> statuses;
};
// Of a framed one; absent where it cannot be read.
std::optional<RlsAnswer> rls_answer(std::string_view framed);

// A framed RateLimitResponse for people: the overall code, then a line a descriptor. Empty where it
// cannot be read.
std::string rls_response_text(std::string_view framed, const DescriptorTexts& asked);

// The same as JSON: {"overall_code": …} as protobuf's JSON has it. Empty where
// it cannot be read.
std::string rls_response_json(std::string_view framed);

}  // namespace weir::drill
