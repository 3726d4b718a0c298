#include "sim/servers.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "sim/fleet.h"
#include "store/redis/byte_codec.h"
#include "store/redis/reply_reader.h"
#include "store/redis/script.h"

namespace weir::sim {

using testing::LuaRedis;
using testing::SimLink;
using testing::SimRedis;

namespace {

bool runs(const std::vector<std::string>& command, const store::redis::Script& script) {
  return command.size() > 3 && ((command[0] == "EVALSHA" && command[1] == script.sha) ||
                                (command[0] == "EVAL" && command[1] == script.text));
}

// The text of an ask that holds its not-after, a pair, and where: see scripts/ask.lua.
struct NotAfter {
  std::string* text;
  std::size_t at;

  Instant value() const {
    store::redis::ByteReader reader(std::string_view(*text).substr(at, 9));
    const auto seconds = static_cast<std::int64_t>(reader.uint(5));
    return Instant{std::chrono::seconds(seconds) +
                   Nanos(static_cast<std::int64_t>(reader.uint(4)))};
  }
};

NotAfter not_after_of(std::vector<std::string>& ask) {
  const std::size_t keys = std::stoul(ask[2]);
  std::string& first = ask[3 + keys];
  const bool brief = ask.size() == 3 + keys + 1;
  return {&first, brief ? first.size() - 9 : 0};
}

// The keys of an ask, as they stand.
std::map<std::string, LuaRedis::Value> values_of(const SimRedis& server,
                                                 const std::vector<std::string>& ask) {
  std::map<std::string, LuaRedis::Value> values;
  const std::size_t keys = std::stoul(ask[2]);
  for (std::size_t i = 0; i < keys; ++i) {
    const auto found = server.keys().find(ask[3 + i]);
    if (found != server.keys().end()) values.emplace(found->first, found->second);
  }
  return values;
}

// Has the server run a command on each key.
template <class Which>
void tell_all(LuaRedis& redis, const std::string& command, Which which) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : redis.keys()) {
    if (which(key)) keys.push_back(key);
  }
  for (const std::string& key : keys) redis.execute({command, key});
}

// The latest epoch that stands in the list of members; 0: there is none.
std::uint64_t latest_epoch(const LuaRedis::Keys& keys, const std::string& key) {
  const auto found = keys.find(key);
  if (found == keys.end()) return 0;
  const auto* text = std::get_if<std::string>(&found->second.data);
  if (text == nullptr || text->size() < 19) return 0;
  store::redis::ByteReader reader(std::string_view(*text).substr(1, 12));
  reader.skip(6);
  return reader.uint(6);
}

}  // namespace

Servers::Servers(const Scenario& scenario, Canary canary, testing::SimLoop& loop, Witness witness)
    : scenario_(scenario),
      canary_(canary),
      loop_(loop),
      witness_(std::move(witness)),
      shards_(scenario.shards) {
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    Shard& shard = shards_[i];
    shard.master = std::make_unique<SimRedis>(loop_, scenario.seed + 1 + i, std::to_string(i));
    watch(*shard.master, i);
    for (auto& links : shard.links) links[0].jitter = links[1].jitter = scenario.jitter;
  }
  if (!scenario.fallback) return;
  fallback_ = std::make_unique<SimRedis>(loop_, scenario.seed + 99, "fallback");
  for (SimLink& link : fallback_links_) link.jitter = scenario.jitter;
  if (canary_ != Canary::fallback_forgets) return;
  fallback_->on_command = [this](std::vector<std::string>& command) {
    if (runs(command, store::redis::kAskScript)) fallback_->redis().execute({"FLUSHALL"});
  };
}

std::vector<SimRedis*> Servers::all() {
  std::vector<SimRedis*> servers;
  for (Shard& shard : shards_) {
    servers.push_back(shard.master.get());
    if (shard.replica) servers.push_back(shard.replica.get());
  }
  if (fallback_) servers.push_back(fallback_.get());
  return servers;
}

Way Servers::way(std::uint32_t worker, std::size_t shard) {
  Shard& of = shards_[shard];
  const bool turned = of.turned[worker];
  return {turned ? of.replica.get() : of.master.get(), &of.links[worker][turned ? 1 : 0]};
}

std::array<SimLink*, 2> Servers::links(std::uint32_t worker, std::size_t shard) {
  auto& links = shards_[shard].links[worker];
  return {&links[0], &links[1]};
}

void Servers::promote(std::size_t shard, LuaRedis::Keys keys, Nanos ahead) {
  Shard& of = shards_[shard];
  of.replica = std::make_unique<SimRedis>(loop_, scenario_.seed + 50 + shard,
                                          "replica of " + std::to_string(shard));
  of.replica->set_ahead(of.master->ahead() + ahead);
  watch(*of.replica, shard);
  of.replica->start_with(std::move(keys));
}

Way Servers::turn(std::uint32_t worker, std::size_t shard) {
  shards_[shard].turned[worker] = true;
  return way(worker, shard);
}

MonoTime Servers::busy_until() const {
  MonoTime latest{};
  for (const Shard& shard : shards_) {
    latest = std::max(latest, shard.master->busy_until());
    if (shard.replica) latest = std::max(latest, shard.replica->busy_until());
  }
  return latest;
}

void Servers::watch(SimRedis& server, std::size_t shard) {
  // What an ask that came too late found.
  auto found = std::make_shared<std::optional<std::map<std::string, LuaRedis::Value>>>();
  server.on_command = [this, &server, found](std::vector<std::string>& command) {
    found->reset();
    if (runs(command, store::redis::kAskScript) &&
        not_after_of(command).value() <
            std::chrono::floor<std::chrono::microseconds>(server.clock())) {
      *found = values_of(server, command);
    }
    if (canary_ != Canary::none) plant(server, command);
  };
  server.on_reply = [this, &server, shard, found](const std::vector<std::string>& command,
                                                  std::string_view bytes) {
    if (*found) {
      for (const auto& [key, value] : values_of(server, command)) {
        const auto before = (*found)->find(key);
        if (before == (*found)->end() || before->second.data != value.data) {
          witness_.late_write(key);
        }
      }
    }
    if (!runs(command, store::redis::kBeatScript)) return;
    store::redis::ReplyReader reader;
    store::redis::FleetReply fleet;
    if (reader.feed(bytes) && reader.next() == store::redis::ReplyReader::Next::reply &&
        store::redis::read_beat(reader.reply(), fleet)) {
      const Shard& of = shards_[shard];
      const bool replaced = of.replica && &server == of.master.get();
      witness_.beat(shard, command[4], command[6].front(), fleet, replaced);
    }
  };
}

// ---- Canaries
// --------------------------------------------------------------------------------------

void Servers::plant(SimRedis& server, std::vector<std::string>& command) const {
  LuaRedis& redis = server.redis();
  const bool asks = runs(command, store::redis::kAskScript);
  const bool beats = runs(command, store::redis::kBeatScript);
  switch (canary_) {
    case Canary::owed_twice:
      tell_all(redis, "DEL", [](const std::string& key) {
        return key.find("{!") == std::string::npos && key.find('!') != std::string::npos;
      });
      break;
    case Canary::runs_twice:
      if (asks && command.front() == "EVALSHA") redis.execute(command);
      break;
    case Canary::no_expiry:
      tell_all(redis, "PERSIST", [](const std::string&) { return true; });
      break;
    case Canary::runs_late:
      if (asks) {
        const NotAfter not_after = not_after_of(command);
        not_after.text->replace(not_after.at, 5, 5, '\x01');
      }
      break;
    case Canary::forgets_the_silent:
      if (beats) command[9] = "0";
      break;
    case Canary::seen_unread:
      if (beats) command[7] = std::to_string(latest_epoch(server.keys(), command[3]));
      break;
    default:
      break;
  }
}

}  // namespace weir::sim
