#include "drill/load/http_load.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

// Boost 1.74 needs <utility> before its headers.
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>

#include "drill/proxy/endpoint.h"

namespace weir::drill {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;
using Tcp = asio::ip::tcp;

asio::steady_timer::time_point ticks(MonoTime at) {
  return std::chrono::time_point_cast<asio::steady_timer::duration>(at);
}
MonoTime now() {
  return Clock::real().mono();
}

}  // namespace

class HttpLoad::Impl {
 public:
  explicit Impl(Options options) : options_(std::move(options)), timer_(io_) {}

  Result<void> run(const Next& next, const OnOutcome& on_outcome) {
    const auto target = endpoint_of(options_.address);
    if (!target) return target.error();
    target_ = *target;
    next_ = &next;
    on_outcome_ = &on_outcome;
    for (std::uint32_t i = 0; i < std::min(options_.connections, kMostConnections); ++i) {
      lines_.push_back(std::make_unique<Line>(*this));
      idle_.push_back(lines_.back().get());
    }
    more_ = next(coming_);
    arm();
    io_.restart();
    io_.run();
    lines_.clear();
    idle_.clear();
    return {};
  }

 private:
  // One connection, with at most one call on it.
  struct Line {
    explicit Line(Impl& owner) : load(owner), socket(owner.io_), patience(owner.io_) {}

    void begin(Call given) {
      call = std::move(given);
      sent = now();
      late = false;
      ++turn;
      patience.expires_at(ticks(sent + load.options_.patience));
      patience.async_wait([this, of = turn](const error_code& fault) {
        if (fault || of != turn) return;
        late = true;
        close();
      });
      reused = socket.is_open();
      if (reused) return write();
      connect();
    }

    void connect() {
      socket.async_connect(load.target_, [this](const error_code& fault) {
        if (fault) return fail(fault);
        error_code ignored;
        socket.set_option(Tcp::no_delay(true), ignored);
        write();
      });
    }

    void write() {
      asio::async_write(socket, asio::buffer(call.request),
                        [this](const error_code& fault, std::size_t) {
                          if (fault) return fail(fault);
                          read();
                        });
    }

    void read() {
      answer.emplace();
      answer->body_limit(1U << 20U);
      http::async_read(socket, buffer, *answer, [this](const error_code& fault, std::size_t) {
        if (fault) return fail(fault);
        const auto& message = answer->get();
        const auto rung = message["Weir-Rung"];
        const bool again = message.keep_alive();
        end(HttpOutcome::End::answered, static_cast<int>(message.result_int()),
            {rung.data(), rung.size()}, again);
      });
    }

    void fail(const error_code& fault) {
      if (late) return end(HttpOutcome::End::timed_out);
      const bool said_nothing = !answer || !answer->got_some();
      answer.reset();
      if (reused && said_nothing) {
        reused = false;
        close();
        return connect();
      }
      end(fault == asio::error::connection_refused ? HttpOutcome::End::refused
                                                   : HttpOutcome::End::cut);
    }

    void end(HttpOutcome::End how, int status = 0, std::string_view rung = {}, bool again = false) {
      ++turn;
      patience.cancel();
      (*load.on_outcome_)({call.tag, call.due, sent, now(), how, status, rung});
      answer.reset();
      if (!again) close();
      load.freed(*this);
    }

    void close() {
      error_code ignored;
      socket.close(ignored);
      buffer.clear();
    }

    Impl& load;
    Tcp::socket socket;
    asio::steady_timer patience;
    boost::beast::flat_buffer buffer;
    std::optional<http::response_parser<http::string_body>> answer;
    Call call;
    MonoTime sent{};
    std::uint64_t turn = 0;  // counts beginnings and ends: a timer is of one call
    bool reused = false;     // the connection was there before the call
    bool late = false;
  };

  void arm() {
    if (!more_) return;
    timer_.expires_at(ticks(coming_.due));
    timer_.async_wait([this](const error_code& fault) {
      if (!fault) begin_due();
    });
  }

  void begin_due() {
    const MonoTime at = now();
    while (more_ && coming_.due <= at) {
      waiting_.push_back(std::move(coming_));
      more_ = (*next_)(coming_);
    }
    serve();
    arm();
  }

  void serve() {
    while (!waiting_.empty() && !idle_.empty()) {
      Line& line = *idle_.back();
      idle_.pop_back();
      Call call = std::move(waiting_.front());
      waiting_.pop_front();
      line.begin(std::move(call));
    }
  }

  void freed(Line& line) {
    idle_.push_back(&line);
    serve();
  }

  const Options options_;
  Tcp::endpoint target_;
  asio::io_context io_{1};
  asio::steady_timer timer_;
  const Next* next_ = nullptr;
  const OnOutcome* on_outcome_ = nullptr;
  Call coming_;
  bool more_ = false;
  std::deque<Call> waiting_;
  std::vector<std::unique_ptr<Line>> lines_;
  std::vector<Line*> idle_;
};

HttpLoad::HttpLoad(Options options) : impl_(std::make_unique<Impl>(std::move(options))) {}
HttpLoad::~HttpLoad() = default;

Result<void> HttpLoad::run(const Next& next, const OnOutcome& on_outcome) {
  return impl_->run(next, on_outcome);
}

}  // namespace weir::drill
