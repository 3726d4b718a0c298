#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "store/redis/redis_client.h"

namespace weir::testing {

// A counter of a rule of its own, for asks in tests.
class RigRule {
 public:
  RigRule(std::uint64_t identity, std::uint64_t limit, Nanos period,
          Algorithm algorithm = Algorithm::gcra, std::string_view value = "v");

  store::Counter counter(std::uint64_t cost = 1, store::Op op = store::Op::take) const;
  const limit::Numbers& numbers() const noexcept { return numbers_; }
  const std::string& key() const noexcept { return key_; }

 private:
  std::uint64_t identity_;
  limit::Numbers numbers_;
  std::string key_;
};

// A RedisClient on a real event loop in the test's own thread. Time is real; nothing sleeps: it
// runs until something has happened, or fails the wait.
class RedisRig final : public store::redis::ClientEvents, public store::redis::AskHandler {
 public:
  struct Options {
    store::redis::Endpoint endpoint;
    std::function<std::string(const std::string&)> lookup;  // absent: the system's
    store::redis::ClientOptions client;
    std::string prefix = "weir";
    Nanos deadline{std::chrono::seconds(5)};  // generous: machines are busy
  };
  struct Result {
    bool answered = false;
    bool decided = false;
    bool allowed = false;
    bool disagreed = false;
    std::string error;  // its row's pattern
    Nanos latency{0};
    std::vector<store::redis::CounterReply> counters;
  };

  explicit RedisRig(Options options);
  static Options on_port(std::uint16_t port);
  ~RedisRig() override;

  store::redis::RedisClient& client() noexcept { return *client_; }

  // Runs the loop until `done`, at most ten seconds. Whether it was.
  bool run_until(const std::function<bool()>& done);
  bool connect();
  void run_for(Nanos time);

  // Asks and runs until the answer.
  Result ask(const std::vector<store::Counter>& counters, store::redis::AskOptions options = {});
  Result ask(const store::Counter& counter) { return ask(std::vector{counter}); }
  // Asks; the result is in results() once it is there. The counters must outlive that.
  std::uint64_t ask_async(std::span<const store::Counter> counters,
                          store::redis::AskOptions options = {});
  const Result& result(std::uint64_t token) const { return results_[token - 1]; }
  std::size_t answered() const noexcept { return answered_; }
  std::size_t asked() const noexcept { return results_.size(); }

  // What the client told.
  std::uint64_t votes = 0;
  std::uint64_t failures = 0;
  std::uint64_t unknown = 0;
  std::uint64_t late = 0;
  std::uint64_t late_allowed = 0;
  std::uint64_t connects = 0;
  std::vector<std::string> disconnects;  // why
  std::vector<store::redis::StoreReport> reports;
  std::function<void(std::uint64_t token)> on_each_answer;

 private:
  struct Loop;
  void on_answer(std::uint64_t token, const store::redis::Answer& answer) override;
  void on_vote(const store::redis::Vote& vote) override;
  void on_late(const store::redis::LateReply& late) override;
  void on_unknown(std::uint64_t asks) override { unknown += asks; }
  void on_report(const store::redis::StoreReport& report) override { reports.push_back(report); }
  void on_connected() override { ++connects; }
  void on_disconnected(const store::redis::ErrorRow& why, std::string_view text) override;

  Options options_;
  std::unique_ptr<Loop> loop_;
  std::unique_ptr<store::redis::Wire> wire_;
  std::unique_ptr<store::redis::RedisClient> client_;
  std::vector<Result> results_;
  std::size_t answered_ = 0;
};

}  // namespace weir::testing
