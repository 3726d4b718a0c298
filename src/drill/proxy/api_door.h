#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "drill/proxy/proxy_api.h"
#include "weir/clock.h"
#include "weir/result.h"

namespace weir::drill {

// Serves a ProxyApi over HTTP/1.1 on a loopback address, for tools on this machine and no page of a
// browser: a request that a page could have sent is refused, whatever name it came by.
//
// Guarantees:  at most kMostConnections at once, of at most kMostBodyBytes a body and kIdle without
//              a word.
// Threads:     run() takes the calling one, and answers there; stop() may be called from any other,
//              and from a signal's handler it must not.
class ApiDoor {
 public:
  static constexpr std::size_t kMostConnections = 64;
  static constexpr std::size_t kMostBodyBytes = 1U << 20U;
  static constexpr Nanos kIdle{std::chrono::seconds(30)};

  // Errors:      invalid_argument (no address, or not of loopback); unavailable (it cannot be had).
  static Result<std::unique_ptr<ApiDoor>> open(const std::string& address, ProxyApi& api);
  ~ApiDoor();
  ApiDoor(const ApiDoor&) = delete;
  ApiDoor& operator=(const ApiDoor&) = delete;

  // host:port, with the port that was had.
  const std::string& address() const noexcept;
  // Until stop(), or until one of SIGINT, SIGTERM and SIGHUP came: then its number.
  int run();
  void stop();
  // Has `work` done in the thread of run(), then.
  //
  // Requires:    run() has not begun, or this is its thread.
  void at(MonoTime when, std::function<void()> work);

 private:
  class Impl;
  explicit ApiDoor(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace weir::drill
