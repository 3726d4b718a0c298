#pragma once

#include <sys/stat.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "server/stream.h"
#include "server/tls/tls_context.h"
#include "weir/clock.h"
#include "weir/result.h"

namespace weir::server {

// Makes TLS streams. Reads its files again when they have changed, so that a renewed certificate
// needs no restart; connections that stand keep what they began with.
//
// Guarantees:  files that cannot be used change nothing: the last good ones stay in force.
// Threads:     any.
class TlsTransport final : public Transport {
 public:
  // What became of changed files: an Error, or nothing where they are in force. Called in a lane's
  // thread, once a change.
  using OnReload = std::function<void(const Result<void>&)>;

  // Errors:      as TlsContext::load.
  static Result<std::unique_ptr<TlsTransport>> open(TlsOptions options, Clock& clock,
                                                    OnReload on_reload = {});

  std::unique_ptr<Stream> wrap(Lane& lane, int fd, int family) override;

  // Reads the files again where they have changed. Comes with new connections, at most once in
  // kLookEvery.
  void refresh();
  // How often changed files came into force.
  std::uint64_t reloads() const noexcept { return reloads_.load(std::memory_order_relaxed); }

 private:
  static constexpr Nanos kLookEvery{std::chrono::seconds(1)};

  // What tells one version of a file from another.
  struct Stamp {
    dev_t device = 0;
    ino_t inode = 0;
    off_t size = 0;
    std::int64_t modified_ns = 0;
    friend bool operator==(const Stamp&, const Stamp&) = default;
  };
  using Stamps = std::array<Stamp, 3>;

  TlsTransport(TlsOptions options, Clock& clock, OnReload on_reload)
      : options_(std::move(options)), clock_(clock), on_reload_(std::move(on_reload)) {}
  Stamps look() const;
  void look_now_and_then();

  const TlsOptions options_;
  Clock& clock_;
  const OnReload on_reload_;
  std::atomic<std::int64_t> next_look_ns_{0};
  std::atomic<std::uint64_t> reloads_{0};
  std::mutex mutex_;
  Stamps seen_{};
  std::shared_ptr<const TlsContext> context_;
};

}  // namespace weir::server
