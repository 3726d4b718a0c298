#include "drill/load/rls_load.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <vector>

#include "drill/load/connect.h"
#include "drill/load/h2_caller.h"
#include "drill/load/rls_ask.h"

namespace weir::drill {
namespace {

using std::chrono::steady_clock;

constexpr const char* kMethod = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
constexpr Nanos kConnectPatience{std::chrono::seconds(5)};
// After the last call has begun, how long answers are waited for.
constexpr Nanos kTail{std::chrono::seconds(5)};

Nanos cpu_used() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& t) {
    return std::chrono::seconds(t.tv_sec) + std::chrono::microseconds(t.tv_usec);
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

// A socket and its caller.
struct Line {
  explicit Line(int socket, const CallTarget& target, std::uint32_t streams)
      : fd(socket), caller(target, streams) {}
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;
  ~Line() {
    if (fd >= 0) ::close(fd);
  }

  // Sends what there is; true while the connection stands.
  bool flush() {
    while (sent < out.size()) {
      const ssize_t count = ::send(fd, out.data() + sent, out.size() - sent, MSG_NOSIGNAL);
      if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return true;
      if (count <= 0) return false;
      sent += static_cast<std::size_t>(count);
    }
    out.clear();
    sent = 0;
    return true;
  }

  int fd;
  H2Caller caller;
  std::string out;
  std::size_t sent = 0;
  bool open = true;
};

class Run {
 public:
  Run(const LoadOptions& options, const OnProgress& on_progress)
      : options_(options),
        on_progress_(on_progress),
        ask_(options.domain, options.key, options.descriptors),
        keys_(options.distribution, options.keys, options.seed) {}
  ~Run() {
    if (epoll_ >= 0) ::close(epoll_);
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  Result<LoadReport> run() {
    if (auto connected = connect(); !connected) return connected.error();
    const Nanos cpu_before = cpu_used();
    begin_ = now_ = steady_clock::now();
    next_key_ = key_of(0);
    end_ = begin_ + options_.duration;
    while (now_ < end_ + kTail && open_ > 0 && (now_ < end_ || in_flight_ > 0)) {
      if (now_ < end_) begin_calls();
      flush_all();
      wait();
      progress();
    }
    report_.took = std::min(now_, end_) - begin_;
    report_.client_cpu = cpu_used() - cpu_before;
    report_.unanswered = report_.begun - report_.answered();
    if (open_ == 0 && report_.answered() == 0) {
      return Error{ErrorCode::unavailable,
                   options_.address + ": " + (fault_.empty() ? "the connection ended" : fault_)};
    }
    return std::move(report_);
  }

 private:
  Result<void> connect() {
    epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
    const CallTarget target{options_.address, kMethod, options_.timeout};
    for (std::uint32_t i = 0; i < options_.connections; ++i) {
      Result<int> fd = connect_to(options_.address, kConnectPatience);
      if (!fd) return std::move(fd).error();
      lines_.push_back(std::make_unique<Line>(*fd, target, options_.streams));
      Line& line = *lines_.back();
      line.caller.start(line.out);
      epoll_event event{};
      event.events = EPOLLIN | EPOLLOUT | EPOLLET;
      event.data.u32 = i;
      ::epoll_ctl(epoll_, EPOLL_CTL_ADD, *fd, &event);
    }
    open_ = lines_.size();
    return {};
  }

  // When the n-th call is due.
  steady_clock::time_point due(std::uint64_t n) const {
    return begin_ + std::chrono::duration_cast<Nanos>(
                        std::chrono::duration<double>(static_cast<double>(n) / *options_.rate));
  }

  void begin_calls() {
    for (;;) {
      if (options_.rate && due(report_.begun) > now_) return;
      const std::string_view body = ask_.for_key(next_key_);
      Line* line = free_line(body.size());
      if (line == nullptr) return;
      const auto from = options_.rate ? due(report_.begun) : now_;
      line->caller.call(body, static_cast<std::uint64_t>((from - begin_).count()), line->out);
      ++report_.begun;
      ++in_flight_;
      next_key_ = key_of(report_.begun);
    }
  }

  // Spread evenly, so that any stretch of the run has its part.
  std::uint32_t key_of(std::uint64_t call) {
    const std::uint64_t part = options_.over_limit_percent;
    const bool over = (call + 1) * part / 100 > call * part / 100;
    return over ? options_.keys : keys_.next();
  }

  // Round and round, so that all connections are used alike.
  Line* free_line(std::size_t body) {
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      next_line_ = (next_line_ + 1) % lines_.size();
      Line& line = *lines_[next_line_];
      if (line.open && line.caller.can_call(body)) return &line;
    }
    return nullptr;
  }

  void flush_all() {
    for (const auto& line : lines_) {
      if (line->open && !line->out.empty() && !line->flush()) lose(*line);
    }
  }

  void wait() {
    Nanos patience = std::chrono::milliseconds(100);
    if (options_.rate && now_ < end_) {
      patience = std::clamp<Nanos>(due(report_.begun) - now_, Nanos::zero(), patience);
      // All streams are taken: only an answer changes that.
      if (patience == Nanos::zero() && free_line(1) == nullptr) {
        patience = std::chrono::milliseconds(100);
      }
    }
    const timespec limit{patience.count() / 1'000'000'000, patience.count() % 1'000'000'000};
    std::array<epoll_event, 64> events;
    const int count = ::epoll_pwait2(epoll_, events.data(), events.size(), &limit, nullptr);
    now_ = steady_clock::now();
    for (int i = 0; i < count; ++i) {
      Line& line = *lines_[events[static_cast<std::size_t>(i)].data.u32];
      if (line.open && !receive(line)) lose(line);
    }
  }

  bool receive(Line& line) {
    for (;;) {
      const ssize_t count = ::recv(line.fd, buffer_.data(), buffer_.size(), 0);
      if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return line.flush();
      if (count <= 0) return false;
      const bool stands =
          line.caller.feed({buffer_.data(), static_cast<std::size_t>(count)}, line.out,
                           [this](const CallReply& reply) { take(reply); });
      if (!stands) {
        fault_ = line.caller.fault();
        return false;
      }
      if (static_cast<std::size_t>(count) < buffer_.size()) return line.flush();
    }
  }

  void take(const CallReply& reply) {
    --in_flight_;
    report_.latency.add(now_ - begin_ - Nanos(static_cast<std::int64_t>(reply.tag)));
    const int code = reply.grpc_status == 0 ? overall_code_of(reply.body) : 0;
    if (code == 1) {
      ++report_.ok;
    } else if (code == 2) {
      ++report_.over_limit;
    } else {
      ++report_.grpc_errors[reply.grpc_status];
    }
  }

  void lose(Line& line) {
    line.open = false;
    in_flight_ -= line.caller.in_flight();
    ::epoll_ctl(epoll_, EPOLL_CTL_DEL, line.fd, nullptr);
    --open_;
  }

  void progress() {
    if (!on_progress_ || now_ < next_progress_) return;
    next_progress_ = now_ + std::chrono::milliseconds(500);
    on_progress_(report_.answered(), now_ - begin_);
  }

  const LoadOptions& options_;
  const OnProgress& on_progress_;
  RlsAsk ask_;
  KeyChooser keys_;
  int epoll_ = -1;
  std::vector<std::unique_ptr<Line>> lines_;
  std::size_t open_ = 0;
  std::size_t next_line_ = 0;
  std::uint32_t next_key_ = 0;
  std::size_t in_flight_ = 0;
  steady_clock::time_point begin_{};
  steady_clock::time_point end_{};
  steady_clock::time_point now_{};
  steady_clock::time_point next_progress_{};
  std::string fault_;
  LoadReport report_;
  std::array<char, 256U << 10U> buffer_;
};

}  // namespace

double LoadReport::share_over_limit() const noexcept {
  return answered() == 0 ? 0 : static_cast<double>(over_limit) / static_cast<double>(answered());
}

double LoadReport::calls_per_second() const noexcept {
  const double seconds = std::chrono::duration<double>(took).count();
  return seconds > 0 ? static_cast<double>(answered()) / seconds : 0;
}

Result<LoadReport> run_load(const LoadOptions& options, const OnProgress& on_progress) {
  if (options.connections == 0 || options.streams == 0 || options.descriptors == 0 ||
      options.keys == 0 || options.duration <= Nanos::zero() || options.over_limit_percent > 100 ||
      (options.rate && !(*options.rate > 0))) {
    return Error{ErrorCode::invalid_argument,
                 "connections, streams, descriptors, keys, rate and duration must be above zero, "
                 "over_limit_percent at most 100"};
  }
  return std::make_unique<Run>(options, on_progress)->run();
}

Result<OneCall> call_once(const std::string& address, const std::string& framed_request,
                          Nanos patience) {
  Result<int> fd = connect_to(address, patience);
  if (!fd) return std::move(fd).error();
  Line line(*fd, {address, kMethod, patience}, 1);
  line.caller.start(line.out);
  const auto begun = steady_clock::now();
  std::optional<OneCall> answer;
  bool asked = false;
  std::array<char, 65536> buffer;
  while (!answer) {
    // A message longer than the window waits for the server's SETTINGS, and may never fit.
    if (!asked && line.caller.can_call(framed_request.size())) {
      line.caller.call(framed_request, 0, line.out);
      asked = true;
    }
    if (!line.flush()) return Error{ErrorCode::unavailable, address + ": the connection ended"};
    const Nanos left = patience - (steady_clock::now() - begun);
    if (left <= Nanos::zero())
      return Error{ErrorCode::unavailable, address + ": no answer in time"};
    pollfd waiting{line.fd, static_cast<short>(POLLIN | (line.out.empty() ? 0 : POLLOUT)), 0};
    ::poll(&waiting, 1,
           static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(left).count()));
    const ssize_t count = ::recv(line.fd, buffer.data(), buffer.size(), 0);
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) continue;
    const bool stands =
        count > 0 &&
        line.caller.feed(
            {buffer.data(), static_cast<std::size_t>(count)}, line.out,
            [&](const CallReply& reply) {
              answer = {reply.grpc_status, std::string(reply.body), steady_clock::now() - begun};
            });
    if (!stands && !answer) {
      const std::string& fault = line.caller.fault();
      return Error{ErrorCode::unavailable,
                   address + ": " + (fault.empty() ? "the connection ended" : fault)};
    }
  }
  return *std::move(answer);
}

}  // namespace weir::drill
