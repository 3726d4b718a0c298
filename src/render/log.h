#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "weir/clock.h"

namespace weir::render {

enum class LogLevel : std::uint8_t { debug, info, warn, error };
enum class LogFormat : std::uint8_t { logfmt, json };

std::string_view to_string(LogLevel level);

// Where finished lines go. Called under the log's lock: one line at a time.
class LogSink {
 public:
  virtual ~LogSink() = default;
  // `line` ends with its newline and holds no other. False: it could not be written. Does not wait:
  // whoever logs may be on the way of requests. One caller at a time.
  virtual bool write(std::string_view line) noexcept = 0;

  // Standard error, one write() a line (of at most PIPE_BUF bytes; more for longer ones). Lives as
  // long as the process. A line that its reader leaves no room for is lost.
  static LogSink& standard_error() noexcept;
};

// One named value of a line. Names are ours, lower case with underscores, and end in their unit
// where they have one; a duration gets its own: {"wait", 20ms} is written wait_ms=20.
struct LogField {
  std::string_view name;
  std::variant<std::string_view, std::uint64_t, bool, Nanos> value;
};

struct LogOptions {
  LogFormat format = LogFormat::logfmt;
  LogLevel least = LogLevel::info;  // what is below is not written
  // At most `burst` lines of one event in `interval`; the rest are counted, and the first line
  // after them says suppressed=N.
  std::uint32_t burst = 10;
  Nanos interval{std::chrono::seconds(10)};
};

// Writes what happens to the process, one line an event: time, level, event, fields.
//
// Requires:    events and subjects are words of ours, so few; never a client's value, nor any in a
//              field.
// Guarantees:  a value cannot end its line or begin a field: logfmt quotes and escapes, JSON
//              escapes, and what is not UTF-8 becomes U+FFFD.
// Threads:     any.
class Log {
 public:
  Log(LogSink& sink, Clock& clock, LogOptions options = {});

  // True where the line was within the bound of its event.
  bool write(LogLevel level, std::string_view event, std::initializer_list<LogField> fields = {}) {
    return write(level, event, std::span(fields.begin(), fields.size()));
  }
  bool write(LogLevel level, std::string_view event, std::span<const LogField> fields);

  // A line that goes on with the one before it. Not bounded by `burst`: whoever writes them bounds
  // how many they are, and writes them after a line that write() let through.
  void write_more(LogLevel level, std::string_view event, std::span<const LogField> fields);

  // A line only where `state` is not the one `subject` was last in; so an outage is one line when
  // it begins and one when it ends, however many calls it meets. Not bounded by `burst`. True where
  // it was a transition.
  bool transition(LogLevel level, std::string_view subject, std::string_view state,
                  std::initializer_list<LogField> fields = {});

 private:
  struct Budget {
    MonoTime since{};
    std::uint32_t written = 0;
    std::uint64_t suppressed = 0;
  };

  // Returns whether a line may be written, and in `suppressed` how many were not before it.
  bool within_budget(std::string_view event, std::uint64_t& suppressed);
  void emit(LogLevel level, std::string_view event, std::string_view state,
            std::span<const LogField> fields, std::uint64_t suppressed);

  LogSink& sink_;
  Clock& clock_;
  const LogOptions options_;
  std::mutex mutex_;
  std::string line_;
  std::uint64_t lost_ = 0;  // lines since the last one that the sink took
  std::map<std::string, Budget, std::less<>> budgets_;
  std::map<std::string, std::string, std::less<>> states_;
};

}  // namespace weir::render
