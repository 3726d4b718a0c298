#include "server/tls/tls_transport.h"

#include <unistd.h>

#include <utility>

#include "server/tls/tls_stream.h"

namespace weir::server {

Result<std::unique_ptr<TlsTransport>> TlsTransport::open(TlsOptions options, Clock& clock,
                                                         OnReload on_reload) {
  std::unique_ptr<TlsTransport> transport(
      new TlsTransport(std::move(options), clock, std::move(on_reload)));
  // Looked at before they are read: a change in between is seen as one.
  transport->seen_ = transport->look();
  auto context = TlsContext::load(transport->options_);
  if (!context) return std::move(context).error();
  transport->context_ = *context;
  return transport;
}

TlsTransport::Stamps TlsTransport::look() const {
  Stamps stamps;
  const std::array<const std::string*, 3> files = {&options_.cert_file, &options_.key_file,
                                                   &options_.client_ca_file};
  for (std::size_t i = 0; i < files.size(); ++i) {
    struct stat found {};
    if (files[i]->empty() || ::stat(files[i]->c_str(), &found) != 0) continue;
    stamps[i] = {found.st_dev, found.st_ino, found.st_size,
                 found.st_mtim.tv_sec * 1'000'000'000 + found.st_mtim.tv_nsec};
  }
  return stamps;
}

void TlsTransport::refresh() {
  const std::lock_guard lock(mutex_);
  const Stamps stamps = look();
  if (stamps == seen_) return;
  seen_ = stamps;
  auto context = TlsContext::load(options_);
  if (context) {
    context_ = *context;
    reloads_.fetch_add(1, std::memory_order_relaxed);
    if (on_reload_) on_reload_({});
  } else if (on_reload_) {
    on_reload_(std::move(context).error());
  }
}

void TlsTransport::look_now_and_then() {
  const std::int64_t now = clock_.mono().time_since_epoch().count();
  std::int64_t due = next_look_ns_.load(std::memory_order_relaxed);
  if (now < due) return;
  if (next_look_ns_.compare_exchange_strong(due, now + kLookEvery.count())) refresh();
}

std::unique_ptr<Stream> TlsTransport::wrap(Lane& lane, int fd, int family) {
  look_now_and_then();
  std::shared_ptr<const TlsContext> context;
  {
    const std::lock_guard lock(mutex_);
    context = context_;
  }
  return make_tls_stream(lane, plain_transport().wrap(lane, fd, family), std::move(context));
}

}  // namespace weir::server
