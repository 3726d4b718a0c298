#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "policy/envoy/name_trial.h"
#include "weir/clock.h"

namespace weir::guard {

class ShardDriver;

// Whether servers let counters of some names be kept, asked before a policy that brings them is in
// force. What no server says in time is nobody's objection: each connection tries them again.
//
// Threads:     ask() and begun() in the store's loop; wait() in another.
class NameQuestion : public std::enable_shared_from_this<NameQuestion> {
 public:
  // How long servers that answer may take.
  static constexpr Nanos kPatience = std::chrono::seconds(1);

  explicit NameQuestion(std::vector<policy::NameTrial> names) : names_(std::move(names)) {}

  // Asks a server, where it is there.
  void ask(ShardDriver& server);
  // All that are to be asked have been.
  void begun() { answered(std::nullopt); }
  // What the first that objects says; absent: none has.
  std::optional<std::string> wait();

 private:
  void answered(std::optional<std::string> objection);

  const std::vector<policy::NameTrial> names_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t open_ = 1;  // and whoever asks
  std::optional<std::string> objection_;
};

}  // namespace weir::guard
