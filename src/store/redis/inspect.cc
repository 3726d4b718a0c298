#include "store/redis/inspect.h"

#include <algorithm>
#include <memory>
#include <utility>

#include <boost/asio/io_context.hpp>

#include "policy/store_url.h"
#include "store/redis/redis_client.h"
#include "store/redis/store_address.h"
#include "store/redis/topology/server_wire.h"

namespace weir::store::redis {
namespace {

// The least that a look may take: one that a deadline of production would cut short says nothing.
constexpr Nanos kLeastPatience = std::chrono::seconds(1);

ClientOptions options_of(const policy::StoreSpec& spec, const policy::StoreUrl& url) {
  ClientOptions options;
  options.session.database = url.database;
  options.session.client_name = "weir-lint";
  options.connect_timeout = spec.connect_timeout;
  options.credentials = credentials_of(spec, url);
  return options;
}

class Look final : private ClientEvents {
 public:
  Look(const policy::StoreSpec& spec, const policy::StoreUrl& url, KeySpace keys, Clock& clock)
      : clock_(clock),
        begun_(clock.mono()),
        wire_(server_wire(io_, spec, url, clock)),
        client_(options_of(spec, url), std::move(keys), *wire_, clock, *this) {}

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
  std::unique_ptr<Wire> wire_;
  RedisClient client_;
};

}  // namespace

Result<Inspection> inspect(const policy::StoreSpec& spec, Clock& clock) {
  const auto url = policy::parse_store_url(spec.url);
  if (!url) return url.error();
  if (url->kind == policy::StoreKind::memory || url->kind == policy::StoreKind::cluster) {
    return Error{ErrorCode::failed_precondition,
                 policy::redacted(spec.url) +
                     " is not spoken to in this release; allowed: redis://, rediss://, "
                     "redis+unix://, redis+sentinel://"};
  }
  auto keys = KeySpace::make(spec.prefix, spec.prefix);
  if (!keys) return keys.error();
  if (auto usable = check_files(spec, *url); !usable) return usable.error();
  policy::StoreSpec patient = spec;
  patient.connect_timeout = std::max(spec.connect_timeout, kLeastPatience);
  return Look(patient, *url, std::move(*keys), clock).run();
}

}  // namespace weir::store::redis
