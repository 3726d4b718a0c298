#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "drill/run/child_process.h"
#include "drill/scenario/scenario.h"
#include "weir/result.h"

namespace weir::drill {

// A redis-server that belongs to a drill: on a free loopback port, in a folder of the drill's.
class OwnRedis {
 public:
  struct Options {
    std::string folder;
    std::string program = "redis-server";
    bool moves_clock = false;  // its clock can be set ahead
    bool loads = false;        // it will be told to load: what makes that long is there before
    std::uint16_t port = 0;    // 0: a free one
    std::vector<std::string> words = {};  // of its command line, besides the usual ones
  };

  // Errors:      unavailable: what could not be started, and what it said or what is missing.
  static Result<std::unique_ptr<OwnRedis>> start(const Options& options);

  std::uint16_t port() const noexcept { return port_; }

  // Says one command to it, as a line; it answers with such words.
  //
  // Errors:      unavailable, with what it answered instead.
  Result<void> tell(const std::string& command, std::string_view answer = "+OK\r\n");

  // Does it to the server, when a phase begins.
  //
  // Errors:      unavailable: it does not start again, or does not do what it is told.
  Result<void> act(const Phase& phase);

 private:
  explicit OwnRedis(Options options) : options_(std::move(options)) {}
  Result<void> spawn(const std::vector<std::string>& more_words = {});
  Result<void> await_answer(std::string_view answer);
  Result<void> fill();
  Result<void> load_slowly();
  Result<void> set_clock(Nanos ahead);

  const Options options_;
  std::uint16_t port_ = 0;
  Nanos ahead_{0};
  std::optional<ChildProcess> process_;
};

}  // namespace weir::drill
