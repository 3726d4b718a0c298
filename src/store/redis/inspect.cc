#include "store/redis/inspect.h"

#include <algorithm>
#include <utility>

#include <boost/asio/io_context.hpp>

#include "policy/store_url.h"
#include "store/redis/asio_wire.h"
#include "store/redis/redis_client.h"
#include "store/redis/store_address.h"
#include "store/redis/tls_session.h"

namespace weir::store::redis {
namespace {

// The least that a look may take: one that a deadline of production would cut short says nothing.
constexpr Nanos kLeastPatience = std::chrono::seconds(1);

ClientOptions options_of(const policy::StoreSpec& spec, const policy::StoreUrl& url) {
  ClientOptions options;
  options.session.database = url.database;
  options.session.client_name = "weir-lint";
  options.connect_timeout = std::max(spec.connect_timeout, kLeastPatience);
  options.credentials = credentials_of(spec, url);
  return options;
}

class Look final : private ClientEvents {
 public:
  Look(const policy::StoreSpec& spec, const policy::StoreUrl& url, KeySpace keys, Clock& clock)
      : clock_(clock),
        begun_(clock.mono()),
        wire_(io_, endpoint_of(spec, url)),
        client_(options_of(spec, url), std::move(keys), wire_, clock, *this) {}

  Inspection run() {
    client_.start();
    while (!done_ && io_.run_one() > 0) {
    }
    client_.stop();
    return std::move(found_);
  }

 private:
  void on_vote(const Vote&) override {}
  void on_late(const LateReply&) override {}
  void on_unknown(std::uint64_t) override {}
  void on_report(const StoreReport& report) override {
    found_.report = report;
    finish();
  }
  void on_disconnected(const ErrorRow& why, std::string_view text) override {
    if (done_) return;
    found_.error = &why;
    found_.error_text = text;
    if (!client_.report().faults.empty()) found_.report = client_.report();
    finish();
  }
  void finish() {
    found_.took = clock_.mono() - begun_;
    done_ = true;
  }

  Clock& clock_;
  const MonoTime begun_;
  bool done_ = false;
  Inspection found_;
  boost::asio::io_context io_{1};
  AsioWire wire_;
  RedisClient client_;
};

}  // namespace

Result<Inspection> inspect(const policy::StoreSpec& spec, Clock& clock) {
  const auto url = policy::parse_store_url(spec.url);
  if (!url) return url.error();
  const bool one_server =
      url->kind == policy::StoreKind::redis || url->kind == policy::StoreKind::unix_socket;
  if (!one_server) {
    return Error{
        ErrorCode::failed_precondition,
        policy::redacted(spec.url) +
            " is not spoken to in this release; allowed: redis://, rediss://, redis+unix://"};
  }
  auto keys = KeySpace::make(spec.prefix, spec.prefix);
  if (!keys) return keys.error();
  if (!spec.password_file.empty()) {
    if (auto read = read_password(spec.password_file); !read) return read.error();
  }
  if (const Endpoint endpoint = endpoint_of(spec, *url); endpoint.tls) {
    if (auto begun = TlsSession::begin(*endpoint.tls); !begun) return begun.error();
  }
  return Look(spec, *url, std::move(*keys), clock).run();
}

}  // namespace weir::store::redis
