#include "weir/clock.h"

#include <thread>

namespace weir {
namespace {

class RealClock final : public Clock {
 public:
  Instant now() const noexcept override {
    return std::chrono::time_point_cast<Nanos>(std::chrono::system_clock::now());
  }
  MonoTime mono() const noexcept override {
    return std::chrono::time_point_cast<Nanos>(std::chrono::steady_clock::now());
  }
  void sleep_until(MonoTime until) override { std::this_thread::sleep_until(until); }
};

}  // namespace

Clock& Clock::real() noexcept {
  static RealClock clock;
  return clock;
}

}  // namespace weir
