#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "store/local_store.h"
#include "store/redis/ask.h"
#include "store/redis/physical_key.h"
#include "store/redis/reply_reader.h"

namespace weir::testing {

// The shipped scripts as a store that decides at the time it is given, so that the suite for every
// store can be held against them: in liblua5.1, or in a real server.
//
// Threads:     any; one ask at a time.
class ScriptStore final : public store::LocalStore {
 public:
  // Runs one command at `now` and returns its reply as RESP bytes.
  using Execute = std::function<std::string(const std::vector<std::string>& command, Instant now)>;

  // The test's clock stands still while a server's runs: by default nothing expires meanwhile.
  explicit ScriptStore(Execute execute, std::uint32_t expiry_margin_ms = 3'600'000)
      : execute_(std::move(execute)), expiry_margin_ms_(expiry_margin_ms) {}

  store::LocalAnswer decide(std::span<const store::Counter> counters, Instant now,
                            std::span<store::Finding> findings) noexcept override;
  std::uint64_t keys() const noexcept override { return 0; }

  // The whole ask: with what is owed, what is known, and any load. Empty: it could not be decided.
  std::vector<store::redis::CounterReply> ask(std::span<const store::Counter> counters,
                                              const store::redis::AskOptions& options,
                                              bool* allowed = nullptr);

 private:
  std::mutex mutex_;
  Execute execute_;
  const std::uint32_t expiry_margin_ms_;
  store::redis::KeySpace keys_ = store::redis::KeySpace::make("weir", "").value();
  store::redis::ReplyReader reader_;
};

}  // namespace weir::testing
