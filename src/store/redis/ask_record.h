#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/redis/ask_codec.h"
#include "store/redis/redis_session.h"

namespace weir::store::redis {

// One ask on its way. Records are used again: their memory stays.
struct RedisSession::AskRecord {
  AskHandler* handler = nullptr;
  std::uint64_t token = 0;
  AskOptions options;
  AskTimes times;
  AskForm form = AskForm::full;
  MonoTime asked_at{};
  int attempts = 0;
  bool answered = false;
  bool voted = false;
  bool detached = false;
  bool followed = false;  // once detached: its reply was told
  std::vector<Counter> counters;
  std::vector<limit::Numbers> numbers;  // once detached
  std::string keys;                     // once detached: all of them, one after the other

  void begin(std::span<const Counter> asked, const AskOptions& how, AskHandler& who,
             std::uint64_t with_token, MonoTime now) {
    handler = &who;
    token = with_token;
    options = how;
    asked_at = now;
    attempts = 0;
    answered = voted = detached = followed = false;
    counters.assign(asked.begin(), asked.end());
  }

  // Whoever asked is answered before the reply came: nothing of theirs is touched from here on.
  void detach() {
    detached = true;
    numbers.clear();
    keys.clear();
    for (const Counter& counter : counters) {
      numbers.push_back(*counter.numbers);
      keys += counter.key;
    }
    std::string_view rest = keys;
    for (std::size_t i = 0; i < counters.size(); ++i) {
      const std::size_t size = counters[i].key.size();
      counters[i].numbers = &numbers[i];
      counters[i].rule = {};
      counters[i].key = rest.substr(0, size);
      rest.remove_prefix(size);
    }
    options.owed = {};
    options.known = {};
  }

  std::optional<MonoTime> next_deadline() const {
    if (answered && voted) return std::nullopt;
    if (answered) return options.vote_by;
    if (voted) return options.answer_by;
    return std::min(options.answer_by, options.vote_by);
  }

  void clear() {
    handler = nullptr;
    counters.clear();
    numbers.clear();
    keys.clear();
    options = {};
  }
};

}  // namespace weir::store::redis
