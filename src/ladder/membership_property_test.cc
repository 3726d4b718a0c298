// A whole fleet under random schedules: the shipped script, the keepers, state folders that lag
// and are lost, beats and replies that are lost, workers that join, crash, restart, leave and are
// cut off. At every moment the parts of all who may spend stay within the limit.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ladder/membership_keeper.h"
#include "limit/parts.h"
#include "store/redis/beat.h"
#include "testing/lua_redis.h"
#include "testing/resp_commands.h"

namespace weir::ladder {
namespace {

using namespace std::chrono_literals;
namespace redis = store::redis;

constexpr const char* kKey = "members";

struct Worker {
  std::string name;
  std::uint64_t incarnation = 0;
  bool stable = false;  // keeps a state folder, and comes back under its name
  bool cut_off = false;
  std::unique_ptr<MembershipKeeper> keeper;
  std::optional<std::string> file;     // what its state folder holds
  std::optional<std::string> writing;  // what is on its way there
  // It has a view, and was silent for longer than its lease while others announced themselves:
  // they may have counted on its being gone. Until it reads again.
  bool lapsed = false;
  bool file_lapsed = false;  // the same of the view in its state folder, until another is there

  bool alive() const { return keeper != nullptr; }
};

class Fleet {
 public:
  void start(Worker& w) {
    w.incarnation = ++incarnations_;
    w.cut_off = false;
    w.lapsed = w.file.has_value() && w.file_lapsed;
    w.keeper = std::make_unique<MembershipKeeper>(
        MembershipKeeper::Options{.self = w.name, .writes = w.stable, .spread = w.incarnation});
    if (w.file) {
      const auto view = MembershipView::parse(*w.file);
      RC_ASSERT(view.has_value());
      (void)w.keeper->start_from(*view, redis_.now());
    }
    note_lapsed();
    w.keeper->store_there(mono());
  }
  void crash(Worker& w) {
    w.keeper.reset();
    w.writing.reset();
    if (!w.stable) w.name.clear();
  }
  void leave(Worker& w) {
    const std::uint64_t incarnation = w.incarnation;
    const std::string name = w.name;
    w.keeper.reset();
    if (!w.cut_off && up) send(redis::Beat::Kind::leave, name, incarnation, 0, 0s);
    w.name.clear();
  }
  void disk(Worker& w) {
    if (!w.writing) return;
    w.file = std::move(w.writing);
    w.writing.reset();
    w.file_lapsed = w.lapsed;
    w.keeper->written(MembershipView::parse(*w.file)->epoch, mono());
  }

  enum class Luck { good, request_lost, reply_lost };
  // Sends what is due.
  void turn(Worker& w, Luck luck) {
    if (!w.alive()) return;
    const auto due = w.keeper->poll(mono());
    if (!due) return;
    if (w.cut_off || !up || luck == Luck::request_lost) {
      w.keeper->failed(mono());
      return;
    }
    // A disk that hung for longer than a lease: what stands there is behind what others are told.
    if (w.file && due->seen_epoch > MembershipView::parse(*w.file)->epoch) w.file_lapsed = true;
    const redis::FleetReply reply =
        send(due->first ? redis::Beat::Kind::first : redis::Beat::Kind::again, w.name,
             w.incarnation, due->seen_epoch, due->lease);
    note_lapsed();
    if (luck == Luck::reply_lost) {
      w.keeper->failed(mono());
      return;
    }
    FleetNews news{.outcome = FleetNews::Outcome::announced,
                   .history = reply.history,
                   .epoch = reply.epoch,
                   .now = reply.now,
                   .members = {}};
    if (reply.outcome == redis::FleetReply::Outcome::ousted)
      news.outcome = FleetNews::Outcome::ousted;
    for (const redis::FleetMember& m : reply.members) {
      news.members.push_back({m.name, m.joined_epoch, m.seen_epoch, m.lease_until});
    }
    w.keeper->answered(news, mono());
    w.lapsed = false;
    if (auto text = w.keeper->to_write()) w.writing = std::move(text);
  }

  void pass(Nanos time) { redis_.advance(time); }
  MonoTime mono() const { return MonoTime{redis_.now().time_since_epoch()}; }

  // The sum of the parts of all who may spend.
  std::uint64_t parts(const limit::Numbers& numbers, const KeyDigest& digest,
                      bool with_lapsed = false) const {
    std::uint64_t sum = 0;
    for (const Worker& w : workers) {
      if (!w.alive() || (w.lapsed && !with_lapsed)) continue;
      const Division division = w.keeper->division();
      if (!division.has_part()) continue;
      const auto part = limit::part_numbers(numbers, {division.place(digest), division.workers()});
      if (part) sum += part->limit;
    }
    return sum;
  }

  std::vector<Worker> workers;
  bool up = true;

 private:
  redis::FleetReply send(redis::Beat::Kind kind, const std::string& name, std::uint64_t incarnation,
                         std::uint64_t seen, Nanos lease) {
    std::string bytes;
    redis::append_beat({.kind = kind,
                        .name = name,
                        .incarnation = incarnation,
                        .seen_epoch = seen,
                        .lease = lease},
                       kKey, true, bytes);
    testing::RespCommands commands;
    commands.feed(bytes);
    redis::ReplyReader reader;
    reader.feed(redis_.execute(*commands.next()));
    RC_ASSERT(reader.next() == redis::ReplyReader::Next::reply);
    redis::FleetReply fleet;
    RC_ASSERT(redis::read_beat(reader.reply(), fleet));
    RC_ASSERT(!fleet.repaired);
    latest_ = fleet;
    return fleet;
  }

  void note_lapsed() {
    for (Worker& w : workers) {
      if (!w.alive() || !w.keeper->view()) continue;
      const auto record =
          std::find_if(latest_.members.begin(), latest_.members.end(),
                       [&](const redis::FleetMember& m) { return m.name == w.name; });
      if (record == latest_.members.end() || record->lease_until <= latest_.now) {
        w.lapsed = w.file_lapsed = true;
      }
    }
  }

  testing::LuaRedis redis_;
  redis::FleetReply latest_;
  std::uint64_t incarnations_ = 0;
};

struct Limits {
  std::vector<limit::Numbers> numbers;
  std::vector<KeyDigest> digests;
};

Limits some_limits() {
  Limits all;
  for (const std::uint64_t limit : {1, 2, 3, 7, 100}) {
    all.numbers.push_back(
        limit::Numbers::make(
            {.algorithm = Algorithm::fixed_window, .limit = limit, .period = {.length = 60s}})
            .value());
  }
  for (std::uint64_t i = 0; i < 3; ++i) all.digests.push_back({i * 77, i * 0x9e3779b97f4a7c15U});
  return all;
}

void step(Fleet& fleet, int& names) {
  static constexpr const char* kNames[] = {"turn",  "pass",   "start", "crash", "leave",
                                           "cable", "outage", "disk",  "wait"};
  Worker& w = fleet.workers[*rc::gen::inRange<std::size_t>(0, fleet.workers.size())];
  const int what = *rc::gen::weightedElement<int>(
      {{30, 0}, {30, 1}, {6, 2}, {3, 3}, {3, 4}, {4, 5}, {2, 6}, {4, 7}, {2, 8}});
  RC_LOG() << fleet.mono().time_since_epoch().count() / 1'000'000 % 10'000'000 << "ms " << w.name
           << ' ' << kNames[what] << '\n';
  switch (what) {
    case 0:
      fleet.turn(w, *rc::gen::weightedElement<Fleet::Luck>({{8, Fleet::Luck::good},
                                                            {1, Fleet::Luck::request_lost},
                                                            {1, Fleet::Luck::reply_lost}}));
      break;
    case 1:
      fleet.pass(std::chrono::milliseconds(*rc::gen::inRange(1, 6'000)));
      for (Worker& each : fleet.workers) fleet.turn(each, Fleet::Luck::good);
      break;
    case 2:
      if (w.alive()) break;
      if (w.name.empty()) {
        w.stable = *rc::gen::arbitrary<bool>();
        w.file.reset();
        w.name = "w" + std::to_string(++names);
      }
      fleet.start(w);
      break;
    case 3:
      if (w.alive()) fleet.crash(w);
      break;
    case 4:
      if (w.alive() && !w.stable) fleet.leave(w);
      break;
    case 5:
      w.cut_off = !w.cut_off;
      break;
    case 6:
      fleet.up = !fleet.up;
      break;
    case 7:
      for (Worker& each : fleet.workers) {
        if (each.alive()) fleet.disk(each);
      }
      break;
    case 8:
      fleet.pass(std::chrono::seconds(*rc::gen::inRange(1, 900)));
      break;
  }
}

RC_GTEST_PROP(MembershipSchedules, ThePartsOfAllWhoMaySpendStayWithinTheLimit, ()) {
  static const Limits limits = some_limits();
  Fleet fleet;
  fleet.workers.resize(5);
  int names = 0;
  const int steps = *rc::gen::inRange(20, 120);
  for (int i = 0; i < steps; ++i) {
    step(fleet, names);
    for (const limit::Numbers& numbers : limits.numbers) {
      for (const KeyDigest& digest : limits.digests) {
        RC_ASSERT(fleet.parts(numbers, digest) <= numbers.limit);
      }
    }
  }
  // Nothing is lost for good: once all is well and the dead are forgotten, the whole limit is
  // divided again.
  fleet.up = true;
  for (Worker& w : fleet.workers) w.cut_off = false;
  bool anyone = false;
  for (const Worker& w : fleet.workers) anyone = anyone || w.alive();
  for (int i = 0; i < 700 && anyone; ++i) {
    fleet.pass(1s);
    for (Worker& w : fleet.workers) {
      fleet.turn(w, Fleet::Luck::good);
      if (w.alive()) fleet.disk(w);
    }
  }
  for (const limit::Numbers& numbers : limits.numbers) {
    for (const KeyDigest& digest : limits.digests) {
      if (anyone) RC_ASSERT(fleet.parts(numbers, digest, true) == numbers.limit);
    }
  }
}

// The harness can fail: a fleet whose joiners spend at once goes over the limit.
TEST(MembershipSchedules, AJoinerThatDidNotWaitWouldBeNoticed) {
  const Limits limits = some_limits();
  Fleet fleet;
  fleet.workers.resize(2);
  fleet.workers[0].name = "a";
  fleet.workers[1].name = "b";
  fleet.start(fleet.workers[0]);
  fleet.turn(fleet.workers[0], Fleet::Luck::good);
  fleet.start(fleet.workers[1]);
  fleet.turn(fleet.workers[1], Fleet::Luck::good);
  EXPECT_EQ(fleet.parts(limits.numbers.back(), limits.digests[0]), 100U);
  MembershipView hasty = *fleet.workers[1].keeper->view();
  hasty.held = true;
  ASSERT_FALSE(fleet.workers[1].keeper->start_from(hasty, hasty.read_at));
  EXPECT_EQ(fleet.parts(limits.numbers.back(), limits.digests[0]), 150U);
}

}  // namespace
}  // namespace weir::ladder
