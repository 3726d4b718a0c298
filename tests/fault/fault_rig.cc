#include "fault_rig.h"

#include <algorithm>
#include <cstdlib>

#include "guard/impl.h"
#include "render/metrics.h"

namespace weir::fault {

using Steady = std::chrono::steady_clock;

Policy policy_on(std::uint16_t port, const PolicyOptions& options) {
  const std::string url =
      options.url.empty() ? "redis://127.0.0.1:" + std::to_string(port) : options.url;
  const std::string text = "store:\n  url: " + url + "\n  deadline: " + options.deadline +
                           "\n  connect_timeout: 2s"  // a busy machine is no fault
                           "\n  workers: {of: 2, index: 0}\n"
                           "  breaker: {cooldown: 50ms, max_cooldown: 200ms}\n"
                           "  recovery: {steps: 2, step: 20ms}\n" +
                           options.store + R"(
inputs: [user]
routes:
  login:
    limits: [{requests: 5, per: hour, by: [user], algorithm: fixed_window}]
    protects: security
  count:
    limits: [{requests: 1000000, per: hour, by: [user], algorithm: fixed_window}]
    protects: side_effects
  search:
    limits: [{requests: )" +
                           std::to_string(options.search) +
                           R"(, per: hour, by: [user], algorithm: fixed_window}]
    protects: capacity
  status:
    limits: [{requests: 3, per: hour, by: [user]}]
    when_store_fails: open
  audit:
    limits: [{requests: 10, per: hour, by: [user], algorithm: sliding_log}]
    protects: security
)";
  return Policy::parse(text).value();
}

void Heard::on_store_event(const StoreEvent& event) {
  std::lock_guard lock(mutex_);
  lines_.push_back({event.kind, std::string(event.why)});
  if (event.kind == StoreEvent::Kind::clock_set) clock_sets_.push_back({event.moved, event.skew});
}

std::vector<Heard::ClockSet> Heard::clock_sets() const {
  std::lock_guard lock(mutex_);
  return clock_sets_;
}

int Heard::count(StoreEvent::Kind kind) const {
  std::lock_guard lock(mutex_);
  return static_cast<int>(
      std::count_if(lines_.begin(), lines_.end(), [&](const Line& l) { return l.kind == kind; }));
}

bool Heard::said(StoreEvent::Kind kind, std::string_view words) const {
  std::lock_guard lock(mutex_);
  return std::any_of(lines_.begin(), lines_.end(), [&](const Line& line) {
    return line.kind == kind && line.why.find(words) != std::string::npos;
  });
}

std::string Heard::all() const {
  std::lock_guard lock(mutex_);
  std::string text;
  for (const Line& line : lines_) {
    text += std::string(to_string(line.kind)) + (line.why.empty() ? "" : ": ") + line.why + '\n';
  }
  return text;
}

bool is_sound(const Decision& decision) {
  const int status = decision.http_status();
  if (status != 200 && status != 429 && status != 503) return false;
  if ((status == 200) != decision.allowed()) return false;
  if (decision.verdict == Verdict::refused && !decision.rules().empty()) return false;
  return std::all_of(decision.rules().begin(), decision.rules().end(), [](const RuleReport& rule) {
    return !rule.remaining || *rule.remaining <= std::max(rule.limit, rule.burst);
  });
}

void Tally::add(const Decision& decision, std::chrono::nanoseconds took,
                std::chrono::nanoseconds deadline) {
  ++asked;
  ++verdicts[decision.verdict];
  ++rungs[decision.rung];
  if (decision.allowed() && decision.rung == Rung::store) ++allowed_by_store;
  if (!is_sound(decision)) {
    ++broken;
    example = decision.json();
  }
  slowest = std::max(slowest, took);
  waited += took > deadline * 3 / 4 ? 1U : 0U;
  late += took > deadline + kGrace ? 1U : 0U;
}

void Tally::add(const Tally& other) {
  asked += other.asked;
  for (const auto& [verdict, count] : other.verdicts) verdicts[verdict] += count;
  for (const auto& [rung, count] : other.rungs) rungs[rung] += count;
  allowed_by_store += other.allowed_by_store;
  broken += other.broken;
  if (!other.example.empty()) example = other.example;
  slowest = std::max(slowest, other.slowest);
  waited += other.waited;
  late += other.late;
}

std::string Tally::times() const {
  return std::to_string(late) + " of " + std::to_string(waited) +
         " that waited came late, and the slowest took " +
         std::to_string(slowest / milliseconds(1)) + " ms";
}

std::uint64_t Tally::allowed() const {
  const auto found = verdicts.find(Verdict::allowed);
  return found == verdicts.end() ? 0 : found->second;
}

Decision check(Guard& guard, std::string_view route, std::string_view user, Tally& tally,
               CheckOptions options) {
  const auto begun = Steady::now();
  Decision decision = guard.check(route, {{"user", user}}, options);
  const auto took = Steady::now() - begun;
  const Nanos deadline = guard.impl().shared()->deadline();
  tally.add(decision, took, std::min(options.deadline.value_or(deadline), deadline));
  return decision;
}

Load::Load(Guard& guard, std::string route, std::string user, int threads, CheckOptions options) {
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this, &guard, route, user, options] {
      Tally mine;
      while (!stop_.load()) {
        (void)check(guard, route, user, mine, options);
        ++asked_;
        std::this_thread::sleep_for(std::chrono::microseconds(500));
      }
      std::lock_guard lock(mutex_);
      tally_.add(mine);
    });
  }
}

Load::~Load() {
  (void)stop();
}

Tally Load::stop() {
  stop_ = true;
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
  return tally_;
}

bool eventually(const std::function<bool()>& done, std::chrono::nanoseconds within) {
  const auto give_up = Steady::now() + within;
  while (!done()) {
    if (Steady::now() >= give_up) return false;
    std::this_thread::sleep_for(milliseconds(2));
  }
  return true;
}

bool until_store(Guard& guard, std::string_view route, std::string_view user) {
  return eventually([&] {
    return guard.check(route, {{"user", user}}, {.cost = 0}).rung == Rung::store;
  });
}

double metric(Guard& guard, std::string_view sample) {
  std::string text;
  guard.impl().metrics().write(text);
  const std::string line = "\n" + std::string(sample) + " ";
  const std::size_t at = text.find(line);
  return at == std::string::npos ? -1 : std::strtod(text.c_str() + at + line.size(), nullptr);
}

double store_errors(Guard& guard, std::string_view error_class) {
  return metric(guard,
                "weir_store_errors_total{shard=\"0\",class=\"" + std::string(error_class) + "\"}");
}

std::uint64_t counted(Guard& guard, std::string_view user) {
  if (!until_store(guard, "count", user)) return UINT64_MAX;
  Decision decision;
  const bool seen = eventually([&] {
    decision = guard.check("count", {{"user", user}}, {.cost = 0});
    return decision.rung == Rung::store;
  });
  if (!seen || decision.rules().size() != 1) return UINT64_MAX;
  return decision.rules()[0].limit - decision.rules()[0].remaining.value_or(0);
}

std::string immortal_keys(testing::RedisServer& server) {
  std::string names;
  for (const std::string& key : server.keys()) {
    if (server.text({"PTTL", key}) == "-1") names += key + ' ';
  }
  return names;
}

}  // namespace weir::fault
