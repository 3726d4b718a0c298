#include "server/grpc/rls.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/util/json_util.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <utility>

#include "envoy/service/ratelimit/v3/rls.pb.h"
#include "render/headers.h"
#include "render/status.h"
#include "server/grpc/message.h"
#include "server/grpc/session.h"

namespace weir::server::grpc {
namespace {

using ::envoy::service::ratelimit::v3::RateLimitRequest;
using ::envoy::service::ratelimit::v3::RateLimitResponse;

constexpr Method kMethods[] = {
    {"/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", MethodKind::unary}};

std::uint32_t clamp32(std::uint64_t value) {
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(value, std::numeric_limits<std::uint32_t>::max()));
}

void add_text(google::protobuf::Struct& to, const char* name, std::string_view text) {
  (*to.mutable_fields())[name].set_string_value(std::string(text));
}

void write_status(const guard::DescriptorStatus& from, RateLimitResponse::DescriptorStatus& to) {
  to.set_code(from.over ? RateLimitResponse::OVER_LIMIT : RateLimitResponse::OK);
  to.set_limit_remaining(clamp32(from.remaining));
  if (const auto seconds = from.reset_seconds()) {
    to.mutable_duration_until_reset()->set_seconds(*seconds);
  }
  if (!from.limit) return;
  auto& limit = *to.mutable_current_limit();
  limit.set_requests_per_unit(clamp32(from.limit->requests_per_unit));
  limit.set_unit(static_cast<RateLimitResponse::RateLimit::Unit>(from.limit->unit));
  limit.set_name(from.limit->name.data(), from.limit->name.size());
}

using ::google::protobuf::internal::WireFormatLite;

// Where a field of the request holds fields of its own: descriptors; in those, entries, limit and
// hits_addend.
bool is_message(std::uint32_t tag, bool in_descriptor) noexcept {
  if (WireFormatLite::GetTagWireType(tag) != WireFormatLite::WIRETYPE_LENGTH_DELIMITED)
    return false;
  const int field = WireFormatLite::GetTagFieldNumber(tag);
  return in_descriptor ? field <= 3 : field == 2;
}

// All fields, however deep, known or not; those before the first that cannot be read.
std::size_t count_fields(std::string_view message) {
  google::protobuf::io::CodedInputStream in(reinterpret_cast<const std::uint8_t*>(message.data()),
                                            static_cast<int>(message.size()));
  std::size_t count = 0;
  // Where the messages around this place end, the outermost first.
  std::array<google::protobuf::io::CodedInputStream::Limit, 2> around;
  std::size_t depth = 0;
  for (;;) {
    const std::uint32_t tag = in.ReadTag();
    if (tag == 0) {
      if (depth == 0 || in.BytesUntilLimit() != 0) return count;
      in.PopLimit(around[--depth]);
      continue;
    }
    ++count;
    if (depth == around.size() || !is_message(tag, depth == 1)) {
      if (!WireFormatLite::SkipField(&in, tag)) return count;
      continue;
    }
    int length = 0;
    if (!in.ReadVarintSizeAsInt(&length)) return count;
    around[depth++] = in.PushLimit(length);
  }
}

std::uint64_t ticket_of(std::uint32_t place, std::uint32_t turn) {
  return std::uint64_t{turn} << 32U | place;
}

}  // namespace

struct RlsService::Messages {
  RateLimitRequest request;
  RateLimitResponse response;
  // JSON that the policy keeps beside its limits, as it is sent.
  std::map<std::string, google::protobuf::Struct, std::less<>> metadata;
};

RlsService::RlsService(guard::RateLimiter& limiter, std::function<void(std::function<void()>)> post)
    : limiter_(limiter), post_(std::move(post)), messages_(std::make_unique<Messages>()) {}

RlsService::~RlsService() = default;

std::span<const Method> RlsService::methods() const noexcept {
  return kMethods;
}

void RlsService::on_message(Session& session, const CallContext& call, std::string_view message) {
  // A message that is not large cannot hold too much.
  if (message.size() > kKeptMessage && count_fields(message) > guard::kMaxAskParts) {
    return on_too_large(session, call);
  }
  RateLimitRequest& request = messages_->request;
  if (!read_message(message, request)) {
    return session.finish(call.id, Code::internal, "the message is no RateLimitRequest");
  }
  read_ask(call, session.now());
  answer_.clear();
  const std::uint32_t place = take_place(session, call.id);
  if (limiter_.decide(ask_, answer_, *this, ticket_of(place, waiting_[place].turn))) {
    free_place(place);
    answer(session, call.id, answer_);
  }
  if (message.size() > kKeptMessage) {
    messages_ = std::make_unique<Messages>();
    entries_ = {};
    descriptors_ = {};
    answer_ = {};
  }
}

void RlsService::on_too_large(Session& session, const CallContext& call) {
  answer_.clear();
  limiter_.refuse_unread(answer_);
  answer(session, call.id, answer_);
}

void RlsService::read_ask(const CallContext& call, MonoTime now) {
  const RateLimitRequest& request = messages_->request;
  std::size_t count = 0;
  for (const auto& descriptor : request.descriptors()) {
    count += static_cast<std::size_t>(descriptor.entries_size());
  }
  entries_.clear();
  entries_.reserve(count);  // so that spans into it hold
  descriptors_.clear();
  for (const auto& descriptor : request.descriptors()) {
    const std::size_t first = entries_.size();
    for (const auto& entry : descriptor.entries()) entries_.push_back({entry.key(), entry.value()});
    guard::AskedDescriptor& asked = descriptors_.emplace_back();
    asked.entries = {entries_.data() + first, entries_.size() - first};
    if (descriptor.has_limit()) {
      // A number that the enumeration does not have is no unit either.
      const int unit = descriptor.limit().unit();
      const bool known = unit > 0 && unit <= static_cast<int>(guard::LimitUnit::year);
      asked.limit = {descriptor.limit().requests_per_unit(),
                     known ? static_cast<guard::LimitUnit>(unit) : guard::LimitUnit::unknown};
    }
    if (descriptor.has_hits_addend()) asked.hits = descriptor.hits_addend().value();
  }
  ask_.domain = request.domain();
  ask_.descriptors = descriptors_;
  // The field cannot tell 0 from "not set", and proxies leave it unset for 1.
  ask_.hits = std::max<std::uint64_t>(1, request.hits_addend());
  ask_.deadline.reset();
  if (call.timeout) ask_.deadline = std::max(Nanos::zero(), *call.timeout - (now - call.began));
}

void RlsService::answer(Session& session, CallId call, const guard::RateLimitAnswer& answer) {
  if (answer.decision.verdict == Verdict::refused && answer.refuse_as_error) {
    return session.finish(call, Code::unavailable, to_string(answer.decision.reason));
  }
  write_response(answer);
  append_message(session, call, messages_->response);
  session.finish(call, Code::ok);
}

void RlsService::write_response(const guard::RateLimitAnswer& answer) {
  RateLimitResponse& response = messages_->response;
  response.Clear();
  response.set_overall_code(answer.decision.allowed() ? RateLimitResponse::OK
                                                      : RateLimitResponse::OVER_LIMIT);
  for (const guard::DescriptorStatus& status : answer.statuses) {
    write_status(status, *response.add_statuses());
  }
  write_headers(answer);
  for (const std::string_view json : answer.metadata) write_kept_metadata(json);
  if (render::remarkable(answer.decision)) write_metadata(answer.decision);
}

void RlsService::write_kept_metadata(std::string_view json) {
  auto& known = messages_->metadata;
  auto found = known.find(json);
  if (found == known.end()) {
    // Texts come from configuration, so few: this bound is for a process that sees many of them.
    if (known.size() >= kKeptMetadata) known.clear();
    found = known.emplace(std::string(json), google::protobuf::Struct()).first;
    (void)google::protobuf::util::JsonStringToMessage(found->first, &found->second);
  }
  messages_->response.mutable_dynamic_metadata()->MergeFrom(found->second);
}

void RlsService::write_headers(const guard::RateLimitAnswer& answer) {
  lines_.clear();
  render::append_proxy_headers(lines_, answer.decision);
  std::string_view rest = lines_;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find("\r\n"));
    rest.remove_prefix(std::min(rest.size(), line.size() + 2));
    const std::size_t colon = line.find(": ");
    if (colon == std::string_view::npos) continue;
    auto& header = *messages_->response.add_response_headers_to_add();
    header.set_key(line.data(), colon);
    header.set_value(line.data() + colon + 2, line.size() - colon - 2);
  }
}

void RlsService::write_metadata(const Decision& decision) {
  google::protobuf::Struct& metadata = *messages_->response.mutable_dynamic_metadata();
  add_text(metadata, "weir_verdict", to_string(decision.verdict));
  add_text(metadata, "weir_rung", to_string(decision.rung));
  add_text(metadata, "weir_reason", to_string(decision.reason));
  if (decision.fault.empty()) return;
  if (decision.reason != Reason::missing_value) {
    return add_text(metadata, "weir_fault", decision.fault);
  }
  add_text(metadata, "weir_lacks", decision.fault);
  if (!decision.rules().empty()) add_text(metadata, "weir_rule", decision.rules().front().rule);
}

void RlsService::answered(std::uint64_t ticket, guard::RateLimitAnswer answer) {
  // Shared, since what std::function holds must be copyable.
  auto kept = std::make_shared<guard::RateLimitAnswer>(std::move(answer));
  post_([this, ticket, kept] { answer_waiting(ticket, *kept); });
}

void RlsService::answer_waiting(std::uint64_t ticket, const guard::RateLimitAnswer& late) {
  const auto place = static_cast<std::uint32_t>(ticket);
  if (waiting_[place].turn != ticket >> 32U) return;  // the caller left
  const Waiting call = waiting_[place];
  free_place(place);
  answer(*call.session, call.call, late);
}

void RlsService::on_gone(Session& session, const CallContext& call) noexcept {
  for (std::uint32_t place = 0; place < waiting_.size(); ++place) {
    if (waiting_[place].session == &session && waiting_[place].call == call.id) {
      return free_place(place);
    }
  }
}

std::size_t RlsService::waiting() const noexcept {
  return waiting_.size() - free_.size();
}

std::uint32_t RlsService::take_place(Session& session, CallId call) {
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(waiting_.size()));
    waiting_.emplace_back();
    free_.reserve(waiting_.capacity());  // so that freeing a place cannot fail
  }
  const std::uint32_t place = free_.back();
  free_.pop_back();
  waiting_[place].session = &session;
  waiting_[place].call = call;
  return place;
}

void RlsService::free_place(std::uint32_t place) noexcept {
  waiting_[place].session = nullptr;
  ++waiting_[place].turn;
  free_.push_back(place);
}

}  // namespace weir::server::grpc
