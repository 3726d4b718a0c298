#include "testing/script_store.h"

#include <cstdio>

#include "store/redis/ask_codec.h"
#include "testing/resp_commands.h"

namespace weir::testing {

using namespace store::redis;
using store::LocalOutcome;

store::LocalAnswer ScriptStore::decide(std::span<const store::Counter> counters, Instant now,
                                       std::span<store::Finding> findings) noexcept {
  AskOptions options;
  options.now = now;
  options.loaded_at = Instant{std::chrono::milliseconds(counters[0].generation)};
  options.expiry_margin_ms = expiry_margin_ms_;
  bool allowed = false;
  const std::vector<CounterReply> replies = ask(counters, options, &allowed);
  if (replies.empty()) return {LocalOutcome::unavailable, false};
  for (std::size_t i = 0; i < counters.size(); ++i) findings[i] = replies[i].finding;
  return {LocalOutcome::decided, allowed};
}

std::vector<CounterReply> ScriptStore::ask(std::span<const store::Counter> counters,
                                           const AskOptions& options, bool* allowed) {
  std::lock_guard lock(mutex_);
  const Instant now = *options.now;
  const AskTimes times{.not_after = Instant{std::chrono::hours(24 * 365 * 100)}, .estimate = now};
  std::string bytes;
  const AskForm form = append_ask(counters, options, times, keys_, true, bytes);
  RespCommands commands;
  commands.feed(bytes);
  const std::string reply = execute_(*commands.next(), now);
  reader_.reset();
  if (!reader_.feed(reply) || reader_.next() != ReplyReader::Next::reply ||
      !reader_.reply().error().empty()) {
    std::fprintf(stderr, "the script failed: %s\n", reply.c_str());
    return {};
  }
  std::vector<CounterReply> replies;
  const DecodedAsk decoded =
      decode_ask(reader_.reply(), form, counters, options, times, now, replies);
  if (decoded.outcome != AskOutcome::decided || decoded.disagreed) return {};
  if (allowed != nullptr) *allowed = decoded.allowed;
  return replies;
}

}  // namespace weir::testing
