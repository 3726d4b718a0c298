#include "drill/load/http_load.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

// Boost 1.74 needs <utility> before its headers.
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/stream.hpp>
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
namespace ssl = boost::asio::ssl;
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
    if (auto trusted = trust(); !trusted) return trusted;
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
  Result<void> trust() {
    if (!options_.tls) return {};
    context_.emplace(ssl::context::tls_client);
    const TlsTrust& tls = *options_.tls;
    error_code error;
    if (tls.unchecked) {
      context_->set_verify_mode(ssl::verify_none, error);
      return {};
    }
    context_->set_verify_mode(ssl::verify_peer, error);
    if (tls.ca_file.empty()) {
      context_->set_default_verify_paths(error);
    } else {
      context_->load_verify_file(tls.ca_file, error);
    }
    if (!error) return {};
    return Error{ErrorCode::invalid_argument,
                 "'" + tls.ca_file + "' is no file of certificates (PEM): " + error.message()};
  }

  // One connection, with at most one call on it.
  struct Line {
    using Stream = ssl::stream<Tcp::socket&>;

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
      stream.reset();
      socket.async_connect(load.target_, [this](const error_code& fault) {
        if (fault) return fail(fault);
        error_code ignored;
        socket.set_option(Tcp::no_delay(true), ignored);
        if (load.context_) return greet();
        write();
      });
    }

    // By TLS: both sides agree, and it is seen who the other one is.
    void greet() {
      const TlsTrust& tls = *load.options_.tls;
      stream.emplace(socket, *load.context_);
      error_code ignored;
      asio::ip::make_address(tls.server_name, ignored);
      const bool is_name = static_cast<bool>(ignored);
      SSL* const session = stream->native_handle();
      if (is_name) SSL_set_tlsext_host_name(session, tls.server_name.c_str());
      if (!tls.unchecked && is_name) ::SSL_set1_host(session, tls.server_name.c_str());
      if (!tls.unchecked && !is_name) {
        ::X509_VERIFY_PARAM_set1_ip_asc(::SSL_get0_param(session), tls.server_name.c_str());
      }
      stream->async_handshake(Stream::client, [this](const error_code& fault) {
        if (!fault) return write();
        if (late || fault.category() != asio::error::get_ssl_category()) return fail(fault);
        end(HttpOutcome::End::untrusted, {.why = why_untrusted(fault)});
      });
    }

    std::string why_untrusted(const error_code& fault) {
      const long found = ::SSL_get_verify_result(stream->native_handle());
      if (found == X509_V_OK) return fault.message();
      if (found == X509_V_ERR_HOSTNAME_MISMATCH || found == X509_V_ERR_IP_ADDRESS_MISMATCH) {
        return "its certificate is not for " + load.options_.tls->server_name;
      }
      return std::string("its certificate is not trusted: ") +
             ::X509_verify_cert_error_string(found);
    }

    template <class Work>
    void by_stream(Work work) {
      if (stream) {
        work(*stream);
      } else {
        work(socket);
      }
    }

    void write() {
      by_stream([this](auto& by) {
        asio::async_write(by, asio::buffer(call.request),
                          [this](const error_code& fault, std::size_t) {
                            if (fault) return fail(fault);
                            read();
                          });
      });
    }

    void read() {
      answer.emplace();
      answer->body_limit(1U << 20U);
      by_stream([this](auto& by) {
        http::async_read(by, buffer, *answer, [this](error_code fault, std::size_t) {
          // Many end TLS without a goodbye. Where an answer lasts until the end, that is the end.
          if (fault == ssl::error::stream_truncated && answer->is_header_done()) {
            fault = {};
            answer->put_eof(fault);
          }
          if (fault) return fail(fault);
          const auto& message = answer->get();
          const auto rung = message["Weir-Rung"];
          end(HttpOutcome::End::answered, {.status = static_cast<int>(message.result_int()),
                                           .rung = {rung.data(), rung.size()},
                                           .again = message.keep_alive()});
        });
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
      if (is_garbled(fault)) return end(HttpOutcome::End::garbled, {.why = fault.message()});
      end(fault == asio::error::connection_refused ? HttpOutcome::End::refused
                                                   : HttpOutcome::End::cut);
    }

    // Not those that say that it ended too early.
    static bool is_garbled(const error_code& fault) {
      return fault.category() == http::make_error_code(http::error::bad_version).category() &&
             fault != http::error::end_of_stream && fault != http::error::partial_message;
    }

    struct Said {
      int status = 0;
      std::string_view rung = {};
      bool again = false;
      std::string why = {};
    };
    void end(HttpOutcome::End how) { end(how, Said{}); }
    void end(HttpOutcome::End how, const Said& said) {
      ++turn;
      patience.cancel();
      (*load.on_outcome_)({call.tag, call.due, sent, now(), how, said.status, said.rung, said.why});
      answer.reset();
      if (!said.again) close();
      load.freed(*this);
    }

    void close() {
      error_code ignored;
      socket.close(ignored);
      buffer.clear();
    }

    Impl& load;
    Tcp::socket socket;
    std::optional<Stream> stream;  // of TLS, over the socket; one for each connection
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
  std::optional<ssl::context> context_;  // where it speaks TLS
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
