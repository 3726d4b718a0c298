#include "drill/run/own_redis.h"

#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>

#include "drill/run/clock_shim_bytes.h"
#include "drill/run/exchange.h"

namespace weir::drill {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

constexpr Nanos kStartPatience = 15s;
// So many keys that are nobody's make it read for longer than any phase, each for so long.
constexpr int kFiller = 60'000;
constexpr const char* kDelayEachKey = "1000";  // microseconds

std::string last_lines(const std::string& text) {
  constexpr std::size_t kMost = 600;
  return text.size() <= kMost ? text : "…" + text.substr(text.size() - kMost);
}

}  // namespace

Result<std::unique_ptr<OwnRedis>> OwnRedis::start(const Options& options) {
  std::unique_ptr<OwnRedis> redis(new OwnRedis(options));
  redis->port_ = options.port != 0 ? options.port : free_port();
  if (options.moves_clock) {
    std::ofstream shim(options.folder + "/clock.so", std::ios::binary);
    shim << clock_shim_bytes();
    if (!shim.flush()) {
      return Error{ErrorCode::unavailable, options.folder + "/clock.so cannot be written"};
    }
    if (auto set = redis->set_clock(Nanos{0}); !set) return set.error();
  }
  if (auto started = redis->spawn(); !started) return started.error();
  if (auto answers = redis->await_answer("+PONG\r\n"); !answers) return answers.error();
  if (options.loads) {
    if (auto filled = redis->fill(); !filled) return filled.error();
  }
  return redis;
}

Result<void> OwnRedis::spawn(const std::vector<std::string>& more_words) {
  std::vector<std::string> words = {
      options_.program, "--port", std::to_string(port_), "--bind", "127.0.0.1",
      "--save",         "",       "--appendonly",        "no",     "--dir",
      options_.folder};
  words.insert(words.end(), options_.words.begin(), options_.words.end());
  words.insert(words.end(), more_words.begin(), more_words.end());
  std::vector<std::string> surroundings;
  if (options_.moves_clock) {
    surroundings = {"LD_PRELOAD=" + options_.folder + "/clock.so",
                    "WEIR_DRILL_CLOCK=" + options_.folder + "/clock"};
  }
  auto child =
      ChildProcess::start(words, options_.folder, options_.folder + "/redis.log", surroundings);
  if (!child) {
    return Error{ErrorCode::unavailable, child.error().message + "; install redis-server"};
  }
  process_ = std::move(*child);
  return {};
}

Result<void> OwnRedis::await_answer(std::string_view answer) {
  const MonoTime until = Clock::real().mono() + kStartPatience;
  while (process_->running() && Clock::real().mono() < until) {
    if (exchange(loopback(port_), "PING\r\n", "\r\n").starts_with(answer)) return {};
    std::this_thread::sleep_for(20ms);
  }
  return Error{ErrorCode::unavailable,
               options_.program + " does not answer: " + last_lines(process_->output())};
}

Result<void> OwnRedis::tell(const std::string& command, std::string_view answer) {
  const std::string said = exchange(loopback(port_), command + "\r\n", answer);
  if (said == answer) return {};
  return Error{ErrorCode::unavailable, options_.program + " answers '" +
                                           said.substr(0, said.find('\r')) + "' to " +
                                           command.substr(0, command.find(' '))};
}

// Much that is nobody's, so that reading it again takes long enough to be seen.
Result<void> OwnRedis::fill() {
  return tell("EVAL \"if redis.call('EXISTS','drill:filler:1') == 0 then for i=1," +
                  std::to_string(kFiller) +
                  " do redis.call('SET','drill:filler:'..i,'') end end return 1\" 0",
              ":1\r\n");
}

// What it holds is saved, and read again slowly.
Result<void> OwnRedis::load_slowly() {
  if (auto done = fill(); !done) return done;
  if (auto done = tell("SAVE"); !done) return done;
  process_->kill();
  if (auto started = spawn(
          {"--key-load-delay", kDelayEachKey, "--loading-process-events-interval-bytes", "1024"});
      !started) {
    return started;
  }
  return await_answer("-LOADING");
}

// The server has the file in its memory: it is written over, never replaced.
Result<void> OwnRedis::set_clock(Nanos ahead) {
  const std::string path = options_.folder + "/clock";
  const std::int64_t seconds = std::chrono::duration_cast<std::chrono::seconds>(ahead).count();
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  const bool written = file >= 0 && ::pwrite(file, &seconds, sizeof seconds, 0) == sizeof seconds;
  if (file >= 0) ::close(file);
  if (!written) return Error{ErrorCode::unavailable, path + " cannot be written"};
  ahead_ = ahead;
  return {};
}

Result<void> OwnRedis::act(const Phase& phase) {
  if (phase.clock_ahead != ahead_) {
    if (auto set = set_clock(phase.clock_ahead); !set) return set;
  }
  switch (phase.server) {
    case ServerAct::none:
      break;
    case ServerAct::pause:
      process_->signal(SIGSTOP);
      break;
    case ServerAct::resume:
      process_->signal(SIGCONT);
      break;
    case ServerAct::kill:
      process_->kill();
      break;
    case ServerAct::start: {
      std::error_code ignored;
      fs::remove(options_.folder + "/dump.rdb", ignored);
      if (auto started = spawn(); !started) return started;
      return await_answer("+PONG\r\n");
    }
    case ServerAct::readonly:
      return tell("REPLICAOF 127.0.0.1 1");
    case ServerAct::writable:
      return tell("REPLICAOF NO ONE");
    case ServerAct::full:
      return tell("CONFIG SET maxmemory 1");
    case ServerAct::freed:
      return tell("CONFIG SET maxmemory 0");
    case ServerAct::loading:
      return load_slowly();
    case ServerAct::loaded:
      if (auto told = tell("CONFIG SET key-load-delay 0"); !told) return told;
      return await_answer("+PONG\r\n");
  }
  return {};
}

}  // namespace weir::drill
