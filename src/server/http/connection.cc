#include "server/http/connection.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace weir::server::http {
namespace {

constexpr std::size_t kFirstBuffer = 4 * 1024;
constexpr std::size_t kKeptBuffer = 16 * 1024;  // larger ones are given back between requests
constexpr std::size_t kLeastRead = 1024;
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

// Whether what came is not the body itself; read as if it were, it would be called malformed.
bool is_coded(const Request& request) {
  const std::string_view coding = request.field("Content-Encoding");
  return !request.body.empty() && !coding.empty() && !same_name(coding, "identity");
}

}  // namespace

struct Later::State {
  HttpConnection* connection = nullptr;  // null once it is gone, or has its answer
};

void Later::send(const std::function<void(Responder&)>& write) {
  const std::shared_ptr<State> state = std::move(state_);
  if (state != nullptr && state->connection != nullptr) {
    std::exchange(state->connection, nullptr)->finish(state, write);
  }
}

HttpConnection::HttpConnection(Lane& lane, std::unique_ptr<Stream> stream,
                               std::shared_ptr<HttpContext> context)
    : lane_(lane),
      stream_(std::move(stream)),
      context_(std::move(context)),
      parser_(context_->bounds) {
  stream_->set_owner(*this);
}

HttpConnection::~HttpConnection() {
  for (const Slot& slot : slots_) {
    if (slot.later != nullptr) slot.later->connection = nullptr;
  }
}

void HttpConnection::start() {
  settle();
}

void HttpConnection::on_read(std::size_t bytes) {
  reading_ = false;
  if (phase_ == Phase::closed) return;
  if (phase_ == Phase::lingering) return start_read();  // read and forgotten
  end_ += bytes;
  process();
}

void HttpConnection::on_end() {
  reading_ = false;
  ended_ = true;
  settle();
}

void HttpConnection::on_written() {
  writing_ = false;
  out_.clear();
  process();
}

void HttpConnection::on_failed() {
  close();
}

void HttpConnection::on_closed() {
  lane_.release(*this);
}

void HttpConnection::process() {
  for (;;) {
    take_ready_slots();
    const bool more = answer_buffered();
    flush();
    if (!more || writing_) break;
  }
  settle();
}

bool HttpConnection::answer_buffered() {
  while (!last_ && !writing_ && slots_.size() < context_->bounds.pipelined) {
    if (out_.size() >= context_->bounds.unsent_bytes) return true;
    if (!answer_one()) break;
  }
  return false;
}

bool HttpConnection::answer_one() {
  // Blank lines before a request are passed over, as RFC 9112 section 2.2 asks.
  while (parser_.state() == RequestParser::State::start && buffered().starts_with("\r\n")) {
    begin_ += 2;
  }
  const std::string_view bytes = buffered();
  if (bytes.empty() || bytes == "\r") return false;
  switch (parser_.parse(bytes)) {
    case RequestParser::State::start:
    case RequestParser::State::head:
      return false;
    case RequestParser::State::body:
      if (parser_.expects_continue() && slots_.empty() && !std::exchange(continued_, true)) {
        out_ += kContinue;
      }
      return false;
    case RequestParser::State::failed:
      answer_fault(parser_.fault().status, parser_.fault().detail);
      return false;
    case RequestParser::State::done:
      break;
  }
  const Request& request = parser_.request();
  framing_ = {.http11 = request.http11,
              .keep_alive = request.keep_alive && !draining_,
              .head = request.method == "HEAD"};
  last_ = !framing_.keep_alive;
  answered_ = false;
  if (is_coded(request)) {
    problem(415, "The body has a content coding, and is read as it is alone: send it uncompressed.",
            "Accept-Encoding: identity\r\n");
  } else {
    context_->handler->handle(request, *this);
  }
  if (!answered_) problem(500, "The request was not answered.", {});
  phase_ = Phase::answering;  // the clocks of the next request start anew
  begin_ += parser_.consumed();
  parser_.reset();
  continued_ = false;
  return true;
}

void HttpConnection::answer_fault(int status, std::string_view detail) {
  count_fault(status);
  last_ = true;
  framing_ = {.keep_alive = false};
  problem(status, detail, {});
}

void HttpConnection::count_fault(int status) {
  switch (status) {
    case 408:
      return context_->count(render::HttpBound::receive_time);
    case 413:
      return context_->count(render::HttpBound::body_bytes);
    case 414:
      return context_->count(render::HttpBound::target_bytes);
    case 431:
      return context_->count(render::HttpBound::header_bytes);
    default:
      return;
  }
}

ResponseWriter HttpConnection::writer() {
  answered_ = true;
  const bool in_order = slots_.empty() && !writing_;
  std::string& out = in_order ? out_ : slots_.emplace_back(Slot{.ready = true}).bytes;
  return {out, framing_, context_->date.at(lane_.clock().now())};
}

Later HttpConnection::later() {
  auto state = std::make_shared<Later::State>();
  state->connection = this;
  slots_.push_back({.framing = framing_, .later = state});
  answered_ = true;
  return Later(std::move(state));
}

void HttpConnection::finish(const std::shared_ptr<Later::State>& state,
                            const std::function<void(Responder&)>& write) {
  const auto slot = std::find_if(slots_.begin(), slots_.end(),
                                 [&](const Slot& each) { return each.later == state; });
  ResponseWriter writer(slot->bytes, slot->framing, context_->date.at(lane_.clock().now()));
  write(writer);
  slot->ready = true;
  slot->later = nullptr;
  if (slot == slots_.begin() && phase_ != Phase::closed) process();
}

void HttpConnection::take_ready_slots() {
  if (writing_) return;
  while (!slots_.empty() && slots_.front().ready) {
    out_ += slots_.front().bytes;
    slots_.pop_front();
  }
}

void HttpConnection::flush() {
  if (out_.empty() || writing_ || phase_ == Phase::closed) return;
  const std::size_t sent = stream_->write_some(out_);
  if (sent == out_.size()) {
    out_.clear();
    if (out_.capacity() > context_->bounds.unsent_bytes) out_.shrink_to_fit();
    return;
  }
  out_.erase(0, sent);
  writing_ = true;
  stream_->write(out_);
}

// Decides what to wait for, and how long.
void HttpConnection::settle() {
  if (phase_ == Phase::closed || phase_ == Phase::lingering) {
    if (ended_) close();
    return;
  }
  const bool all_answered = slots_.empty() && !writing_;
  if (all_answered && ended_) return close();
  if (all_answered && last_) return linger();
  if (!last_ && !ended_ && !writing_ && slots_.size() < context_->bounds.pipelined) start_read();
  if (writing_) return enter(Phase::sending);
  if (!slots_.empty()) return enter(Phase::answering);
  enter(begin_ == end_ ? Phase::idle : Phase::receiving);
}

void HttpConnection::start_read() {
  if (reading_) return;
  make_room();
  reading_ = true;
  stream_->read({in_.get() + end_, capacity_ - end_});
}

void HttpConnection::make_room() {
  if (phase_ == Phase::lingering) begin_ = end_;
  const std::size_t held = end_ - begin_;
  std::size_t wanted = capacity_;
  if (held == 0 && (capacity_ == 0 || capacity_ > kKeptBuffer)) {
    wanted = kFirstBuffer;
  } else if (capacity_ - held < kLeastRead) {
    wanted = capacity_ * 2;  // the parser refuses a request long before this grows without end
  }
  if (wanted != capacity_) {
    auto larger = std::make_unique_for_overwrite<char[]>(wanted);
    if (held != 0) std::memcpy(larger.get(), in_.get() + begin_, held);
    in_ = std::move(larger);
    capacity_ = wanted;
  } else if (begin_ != 0 && (held == 0 || capacity_ - end_ < kLeastRead)) {
    std::memmove(in_.get(), in_.get() + begin_, held);
  } else {
    return;
  }
  begin_ = 0;
  end_ = held;
}

void HttpConnection::enter(Phase phase) {
  if (phase == phase_) return;
  phase_ = phase;
  const Bounds& bounds = context_->bounds;
  switch (phase) {
    case Phase::idle:
      due_ = lane_.now() + (draining_ ? bounds.drain_idle : bounds.idle);
      break;
    case Phase::receiving:
      due_ = lane_.now() + bounds.receive;
      break;
    case Phase::sending:
      due_ = lane_.now() + bounds.send;
      break;
    case Phase::lingering:
      due_ = lane_.now() + bounds.linger;
      break;
    case Phase::answering:
    case Phase::closed:
      due_ = MonoTime::max();
      break;
  }
}

void HttpConnection::sweep(MonoTime now) {
  if (now < due_) return;
  switch (phase_) {
    case Phase::idle:
      if (!draining_) context_->count(render::HttpBound::idle_time);
      return close();
    case Phase::receiving:
      answer_fault(408, "The request did not come in time.");
      return process();
    case Phase::sending:
      context_->count(render::HttpBound::send_time);
      return close();
    case Phase::lingering:
      return close();
    case Phase::answering:
    case Phase::closed:
      return;
  }
}

void HttpConnection::drain() {
  draining_ = true;
  if (phase_ == Phase::idle) due_ = std::min(due_, lane_.now() + context_->bounds.drain_idle);
}

// Closing at once would make the kernel throw away an answer that the client has not read yet, if
// the client has sent more than we took. So: say that nothing more comes, and read until it closes.
void HttpConnection::linger() {
  stream_->shutdown_send();
  enter(Phase::lingering);
  if (ended_) return close();
  start_read();
}

void HttpConnection::close() {
  if (phase_ == Phase::closed) return;
  enter(Phase::closed);
  stream_->close();
}

}  // namespace weir::server::http
