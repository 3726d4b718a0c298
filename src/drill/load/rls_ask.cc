#include "drill/load/rls_ask.h"

#include <google/protobuf/util/json_util.h>

#include <nlohmann/json.hpp>

#include "envoy/service/ratelimit/v3/rls.pb.h"

namespace weir::drill {
namespace {

using ::envoy::service::ratelimit::v3::RateLimitRequest;
using ::envoy::service::ratelimit::v3::RateLimitResponse;

constexpr std::size_t kPrefix = 5;
// As long as an IPv4 address often is.
constexpr std::string_view kValue = "k0000000000.000";
constexpr std::size_t kDigits = 10;

std::string framed(const google::protobuf::MessageLite& message) {
  const std::string body = message.SerializeAsString();
  std::string out(1, '\0');
  for (int shift = 24; shift >= 0; shift -= 8)
    out += static_cast<char>(body.size() >> shift & 0xff);
  return out + body;
}

bool read(std::string_view framed_response, RateLimitResponse& response) {
  if (framed_response.size() < kPrefix) return false;
  const std::string_view body = framed_response.substr(kPrefix);
  return response.ParseFromArray(body.data(), static_cast<int>(body.size()));
}

std::string descriptor_text(const std::vector<std::pair<std::string, std::string>>& entries) {
  std::string out;
  for (const auto& [key, value] : entries) out += (out.empty() ? "" : ",") + key + "=" + value;
  return out;
}

template <class Headers>
void tell_headers(const Headers& headers, const char* member, nlohmann::ordered_json& out) {
  for (int i = 0; i < headers.size(); ++i) {
    auto& header = out[member][static_cast<std::size_t>(i)];
    header["key"] = headers[i].key();
    if (!headers[i].value().empty()) header["value"] = headers[i].value();
  }
}

std::string value_of(std::uint32_t descriptor) {
  std::string value(kValue);
  for (std::size_t i = 0; i < 3; ++i, descriptor /= 10) {
    value[value.size() - 1 - i] = static_cast<char>('0' + descriptor % 10);
  }
  return value;
}

}  // namespace

RlsAsk::RlsAsk(const std::string& domain, const std::string& key, std::uint32_t descriptors) {
  DescriptorTexts texts;
  for (std::uint32_t i = 0; i < descriptors; ++i) texts.push_back({{key, value_of(i)}});
  bytes_ = rls_request(domain, texts, 0);
  std::size_t at = 0;
  for (std::uint32_t i = 0; i < descriptors; ++i) {
    at = bytes_.find(value_of(i), at);
    values_.push_back(at);
    at += kValue.size();
  }
}

std::string_view RlsAsk::for_key(std::uint32_t number) {
  for (const std::size_t at : values_) {
    std::uint32_t rest = number;
    for (std::size_t i = kDigits; i > 0; --i, rest /= 10) {
      bytes_[at + i] = static_cast<char>('0' + rest % 10);
    }
  }
  return bytes_;
}

int overall_code_of(std::string_view framed_response) {
  if (framed_response.size() < kPrefix) return -1;
  const std::string_view body = framed_response.substr(kPrefix);
  if (body.empty()) return 0;
  // overall_code is field 1, and writers put fields in their order.
  if (body[0] == 0x08 && body.size() >= 2 && body[1] >= 0 && body[1] <= 2) return body[1];
  RateLimitResponse response;
  if (!response.ParseFromArray(body.data(), static_cast<int>(body.size()))) return -1;
  return response.overall_code();
}

namespace {

RateLimitRequest request_of(const std::string& domain, const DescriptorTexts& descriptors) {
  RateLimitRequest request;
  request.set_domain(domain);
  for (const auto& entries : descriptors) {
    auto& descriptor = *request.add_descriptors();
    for (const auto& [key, value] : entries) {
      auto& entry = *descriptor.add_entries();
      entry.set_key(key);
      entry.set_value(value);
    }
  }
  return request;
}

}  // namespace

std::string rls_request(const std::string& domain, const DescriptorTexts& descriptors,
                        std::uint32_t hits) {
  RateLimitRequest request = request_of(domain, descriptors);
  request.set_hits_addend(hits);
  return framed(request);
}

std::string rls_request_of_each(const std::string& domain, const DescriptorTexts& descriptors,
                                std::uint64_t hits) {
  RateLimitRequest request = request_of(domain, descriptors);
  for (auto& descriptor : *request.mutable_descriptors()) {
    descriptor.mutable_hits_addend()->set_value(hits);
  }
  return framed(request);
}

std::optional<RlsAnswer> rls_answer(std::string_view framed_response) {
  RateLimitResponse response;
  if (!read(framed_response, response)) return std::nullopt;
  RlsAnswer answer{.overall = RateLimitResponse::Code_Name(response.overall_code()),
                   .statuses = {}};
  for (const auto& status : response.statuses()) {
    RlsAnswer::Status& out = answer.statuses.emplace_back();
    out.code = RateLimitResponse::Code_Name(status.code());
    out.limited = status.has_current_limit();
    if (out.limited) {
      out.requests_per_unit = status.current_limit().requests_per_unit();
      out.unit = RateLimitResponse::RateLimit::Unit_Name(status.current_limit().unit());
      out.name = status.current_limit().name();
    }
    out.remaining = status.limit_remaining();
    if (status.has_duration_until_reset()) {
      out.reset_seconds = status.duration_until_reset().seconds();
    }
  }
  return answer;
}

std::string rls_response_text(std::string_view framed_response, const DescriptorTexts& asked) {
  RateLimitResponse response;
  if (!read(framed_response, response)) return {};
  std::string out = RateLimitResponse::Code_Name(response.overall_code()) + "\n";
  for (int i = 0; i < response.statuses_size(); ++i) {
    const auto& status = response.statuses(i);
    out += "  " + (static_cast<std::size_t>(i) < asked.size()
                       ? descriptor_text(asked[static_cast<std::size_t>(i)])
                       : "descriptor " + std::to_string(i + 1));
    out += "  " + RateLimitResponse::Code_Name(status.code());
    if (status.has_current_limit()) {
      const auto& limit = status.current_limit();
      out += ", " + std::to_string(status.limit_remaining()) + " of " +
             std::to_string(limit.requests_per_unit()) + " left, unit " +
             RateLimitResponse::RateLimit::Unit_Name(limit.unit());
      if (!limit.name().empty()) out += ", limit " + limit.name();
    } else if (status.limit_remaining() != 0) {
      out += ", unlimited";
    } else {
      out += ", no limit";
    }
    if (status.has_duration_until_reset()) {
      out += ", reset in " + std::to_string(status.duration_until_reset().seconds()) + " s";
    }
    out += "\n";
  }
  for (const auto& header : response.response_headers_to_add()) {
    out += "  " + header.key() + ": " + header.value() + "\n";
  }
  return out;
}

std::string rls_response_json(std::string_view framed_response) {
  RateLimitResponse response;
  std::string text;
  if (!read(framed_response, response)) return {};
  if (!google::protobuf::util::MessageToJsonString(response, &text).ok()) return {};
  auto out = nlohmann::ordered_json::parse(text, nullptr, false);
  // These are text to those who wrote them; bytes come out as base64.
  for (int i = 0; i < response.statuses_size(); ++i) {
    const std::string& name = response.statuses(i).current_limit().name();
    if (!name.empty()) out["statuses"][static_cast<std::size_t>(i)]["currentLimit"]["name"] = name;
  }
  tell_headers(response.response_headers_to_add(), "responseHeadersToAdd", out);
  tell_headers(response.request_headers_to_add(), "requestHeadersToAdd", out);
  return out.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace weir::drill
