#include "render/log.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <climits>
#include <utility>

#include "render/text.h"

namespace weir::render {
namespace {

using std::chrono::milliseconds;

// Never waits: a reader of our lines that has stopped reading must not stop the lanes with it.
class StandardError final : public LogSink {
 public:
  bool write(std::string_view line) noexcept override {
    if (torn_ && !write_part("\n")) return false;
    torn_ = false;
    while (!line.empty()) {
      const std::string_view part = line.substr(0, kPart);
      if (!write_part(part)) return false;
      line.remove_prefix(part.size());
      torn_ = !line.empty();
    }
    return true;
  }

 private:
  // What a pipe that polls as writable takes at once and whole.
  static constexpr std::size_t kPart = PIPE_BUF;

  static bool write_part(std::string_view part) noexcept {
    pollfd room{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
    if (::poll(&room, 1, 0) != 1 || (room.revents & POLLOUT) == 0) return false;
    while (!part.empty()) {
      const ssize_t written = ::write(STDERR_FILENO, part.data(), part.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return false;
      part.remove_prefix(static_cast<std::size_t>(written));
    }
    return true;
  }

  bool torn_ = false;  // the last line was cut off in the middle
};

void append_padded(std::string& out, std::uint64_t value, std::size_t width) {
  const std::size_t start = out.size();
  append_number(out, value);
  while (out.size() - start < width) out.insert(start, 1, '0');
}

// 2026-01-31T12:00:00.123Z
void append_time(std::string& out, Instant now) {
  const auto day = std::chrono::floor<std::chrono::days>(now);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss time(std::chrono::floor<milliseconds>(now - day));
  const auto part = [&](auto value, std::size_t width, char after) {
    append_padded(out, static_cast<std::uint64_t>(value), width);
    out += after;
  };
  part(static_cast<int>(date.year()), 4, '-');
  part(static_cast<unsigned>(date.month()), 2, '-');
  part(static_cast<unsigned>(date.day()), 2, 'T');
  part(time.hours().count(), 2, ':');
  part(time.minutes().count(), 2, ':');
  part(time.seconds().count(), 2, '.');
  part(time.subseconds().count(), 3, 'Z');
}

// A bare word where that is unmistakable, else quoted and escaped as in JSON.
void append_logfmt_value(std::string& out, std::string_view text) {
  bool bare = !text.empty();
  for (const char raw : text) {
    const auto c = static_cast<unsigned char>(raw);
    if (c <= ' ' || c >= 0x7f || c == '"' || c == '=' || c == '\\') bare = false;
  }
  if (bare) {
    out += text;
  } else {
    append_json_string(out, text);
  }
}

class LineWriter {
 public:
  LineWriter(std::string& out, LogFormat format) : out_(out), json_(format == LogFormat::json) {
    out_.clear();
    if (json_) out_ += '{';
  }
  ~LineWriter() { out_ += json_ ? "}\n" : "\n"; }

  void text(std::string_view name, std::string_view value) {
    begin(name, "");
    if (json_) {
      append_json_string(out_, value);
    } else {
      append_logfmt_value(out_, value);
    }
  }
  void time(std::string_view name, Instant now) {
    begin(name, "");
    if (json_) out_ += '"';
    append_time(out_, now);
    if (json_) out_ += '"';
  }
  void field(const LogField& field) {
    if (const auto* value = std::get_if<std::string_view>(&field.value)) {
      text(field.name, *value);
    } else if (const auto* number = std::get_if<std::uint64_t>(&field.value)) {
      begin(field.name, "");
      append_number(out_, *number);
    } else if (const auto* flag = std::get_if<bool>(&field.value)) {
      begin(field.name, "");
      out_ += *flag ? "true" : "false";
    } else {
      begin(field.name, "_ms");
      append_decimal(out_, shown(std::get<Nanos>(field.value)), milliseconds(1));
    }
  }

 private:
  // Whole microseconds, down: what is below them is noise to who reads lines.
  static Nanos shown(Nanos value) { return value - value % std::chrono::microseconds(1); }

  void begin(std::string_view name, std::string_view unit) {
    if (!first_) out_ += json_ ? ',' : ' ';
    first_ = false;
    if (json_) out_ += '"';
    out_ += name;
    out_ += unit;
    out_ += json_ ? "\":" : "=";
  }

  std::string& out_;
  const bool json_;
  bool first_ = true;
};

}  // namespace

std::string_view to_string(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return "debug";
    case LogLevel::info:
      return "info";
    case LogLevel::warn:
      return "warn";
    case LogLevel::error:
      return "error";
  }
  return "unknown";
}

LogSink& LogSink::standard_error() noexcept {
  static StandardError sink;
  return sink;
}

Log::Log(LogSink& sink, Clock& clock, LogOptions options)
    : sink_(sink), clock_(clock), options_(options) {}

bool Log::within_budget(std::string_view event, std::uint64_t& suppressed) {
  auto found = budgets_.find(event);
  if (found == budgets_.end()) found = budgets_.emplace(event, Budget{}).first;
  Budget& budget = found->second;
  const MonoTime now = clock_.mono();
  if (budget.written == 0 || now - budget.since >= options_.interval) {
    budget.since = now;
    budget.written = 0;
  }
  if (budget.written >= options_.burst) {
    ++budget.suppressed;
    return false;
  }
  ++budget.written;
  suppressed = std::exchange(budget.suppressed, 0);
  return true;
}

void Log::emit(LogLevel level, std::string_view event, std::string_view state,
               std::span<const LogField> fields, std::uint64_t suppressed) {
  {
    LineWriter line(line_, options_.format);
    line.time("time", clock_.now());
    line.text("level", to_string(level));
    line.text("event", event);
    if (!state.empty()) line.text("state", state);
    for (const LogField& field : fields) line.field(field);
    if (suppressed != 0) line.field({"suppressed", suppressed});
    if (lost_ != 0) line.field({"lost", lost_});
  }
  lost_ = sink_.write(line_) ? 0 : lost_ + 1;
}

bool Log::write(LogLevel level, std::string_view event, std::span<const LogField> fields) {
  if (level < options_.least) return false;
  std::lock_guard lock(mutex_);
  std::uint64_t suppressed = 0;
  if (!within_budget(event, suppressed)) return false;
  emit(level, event, "", fields, suppressed);
  return true;
}

void Log::write_more(LogLevel level, std::string_view event, std::span<const LogField> fields) {
  if (level < options_.least) return;
  std::lock_guard lock(mutex_);
  emit(level, event, "", fields, 0);
}

bool Log::transition(LogLevel level, std::string_view subject, std::string_view state,
                     std::initializer_list<LogField> fields) {
  std::lock_guard lock(mutex_);
  auto found = states_.find(subject);
  if (found == states_.end()) {
    states_.emplace(subject, state);
  } else if (found->second == state) {
    return false;
  } else {
    found->second = state;
  }
  if (level >= options_.least)
    emit(level, subject, state, std::span(fields.begin(), fields.size()), 0);
  return true;
}

}  // namespace weir::render
