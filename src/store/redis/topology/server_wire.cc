#include "store/redis/topology/server_wire.h"

#include <random>
#include <utility>
#include <vector>

#include "store/redis/asio_wire.h"
#include "store/redis/store_address.h"
#include "store/redis/tls_session.h"
#include "store/redis/topology/located_wire.h"
#include "store/redis/topology/sentinel_watch.h"

namespace weir::store::redis {
namespace {

SentinelWatch::Options watch_options(const policy::StoreSpec& spec, const policy::StoreUrl& url) {
  SentinelWatch::Options options{.master = url.master,
                                 // Locating and connecting share one connect_timeout.
                                 .patience = spec.connect_timeout / 2,
                                 .credentials = {},
                                 .random_seed = std::random_device{}()};
  if (has_credentials(spec, url)) options.credentials = credentials_of(spec, url);
  return options;
}

// The wires to the sentinels, what asks them, and the wire to whom they name.
class SentinelWire final : public Wire {
 public:
  SentinelWire(boost::asio::io_context& io, const policy::StoreSpec& spec,
               const policy::StoreUrl& url, Clock& clock)
      : watch_(watch_options(spec, url), sentinels(io, spec, url), clock),
        server_(io, Endpoint{}),
        wire_(endpoint_at(spec, url, {}), watch_, server_) {}

  void bind(Events* events) override { wire_.bind(events); }
  void open() override { wire_.open(); }
  void close() override { wire_.close(); }
  void send(std::string& bytes) override { wire_.send(bytes); }
  void flush_soon() override { wire_.flush_soon(); }
  void wake_at(MonoTime when) override { wire_.wake_at(when); }
  std::optional<Endpoint> where() const override { return server_.where(); }

 private:
  std::vector<SentinelWatch::Sentinel> sentinels(boost::asio::io_context& io,
                                                 const policy::StoreSpec& spec,
                                                 const policy::StoreUrl& url) {
    std::vector<SentinelWatch::Sentinel> out;
    for (const policy::StoreHost& host : url.hosts) {
      const HostPort where{host.host, host.port};
      const Endpoint endpoint = endpoint_at(spec, url, where);
      AsioWire& asks = *to_sentinels_.emplace_back(std::make_unique<AsioWire>(io, endpoint));
      AsioWire& listens = *to_sentinels_.emplace_back(std::make_unique<AsioWire>(io, endpoint));
      out.push_back({where.text(), asks, listens});
    }
    return out;
  }

  std::vector<std::unique_ptr<AsioWire>> to_sentinels_;
  SentinelWatch watch_;
  AsioWire server_;
  LocatedWire wire_;
};

}  // namespace

std::unique_ptr<Wire> server_wire(boost::asio::io_context& io, const policy::StoreSpec& spec,
                                  const policy::StoreUrl& url, Clock& clock) {
  if (url.kind == policy::StoreKind::sentinel) {
    return std::make_unique<SentinelWire>(io, spec, url, clock);
  }
  return std::make_unique<AsioWire>(io, endpoint_of(spec, url));
}

Result<void> check_files(const policy::StoreSpec& spec, const policy::StoreUrl& url) {
  if (!spec.password_file.empty()) {
    if (auto read = read_password(spec.password_file); !read) return read.error();
  }
  if (!url.tls) return {};
  const TlsFiles files = *endpoint_of(spec, url).tls;
  auto context = TlsContext::read(files);
  if (!context) return context.error();
  auto begun = TlsSession::begin(*std::move(context), files.server_name);
  if (!begun) return begun.error();
  return {};
}

}  // namespace weir::store::redis
