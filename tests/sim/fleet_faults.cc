#include <algorithm>
#include <chrono>

#include "sim/fleet_run.h"

namespace weir::sim {

using namespace std::chrono_literals;
using testing::LuaRedis;
using testing::SimLink;
using testing::SimRedis;

// ---- Faults.

std::size_t Fleet::shard_of(const Fault& fault) const {
  return fault.shard == kFloodShard ? history_.targets[flood_route()][0][0].shard : fault.shard;
}

void Fleet::expose(std::uint32_t worker, std::size_t shard, Nanos start, Nanos length) {
  history_.exposed.push_back({.worker = worker,
                              .shard = shard,
                              .from = history_.began + start,
                              .until = history_.began + start + length + back_within_});
}

void Fleet::expose(std::uint32_t worker, Nanos start, Nanos length) {
  for (std::size_t i = 0; i < servers_.shards(); ++i) expose(worker, i, start, length);
}

void Fleet::schedule(const Fault& fault) {
  loop_.at(history_.began + fault.start, [this, &fault] { begin(fault); });
  loop_.at(history_.began + fault.start + fault.length, [this, &fault] { mend(fault); });
  if (fault.kind == FaultKind::promote || fault.kind == FaultKind::split) {
    loop_.at(history_.began + fault.start - fault.amount,
             [this, &fault] { dumps_[&fault] = servers_.master(shard_of(fault)).keys(); });
    loop_.at(history_.began + fault.start + fault.length / 2, [this, &fault] { take_over(fault); });
  }
  if (fault.kind == FaultKind::split) {
    loop_.at(history_.began + fault.start + fault.length * 3 / 4,
             [this, &fault] { demote(fault); });
  }
  if (!cuts_off(fault.kind)) return;
  for (std::uint32_t worker = 0; worker < kWorkers; ++worker) {
    if (is_of_one_worker(fault.kind) && worker != fault.worker) continue;
    if (replaces(fault.kind) || fault.kind == FaultKind::pause) {
      expose(worker, fault.start, fault.length);
    } else {
      expose(worker, shard_of(fault), fault.start, fault.length);
    }
  }
}

void Fleet::cut(const Fault& fault, bool up, bool down) {
  for (SimLink* link : servers_.links(fault.worker, shard_of(fault))) {
    link->cut_up = link->cut_up || up;
    link->cut_down = link->cut_down || down;
  }
}

void Fleet::mend_cut(const Fault& fault) {
  for (SimLink* link : servers_.links(fault.worker, shard_of(fault))) {
    link->cut_up = link->cut_down = false;
    for (SimRedis* server : servers_.all()) server->mended(*link);
  }
}

void Fleet::note_loss(std::size_t shard, MonoTime from) {
  history_.losses.push_back({.shard = shard, .from = from, .until = loop_.mono()});
}

void Fleet::list_lost(std::size_t shard) {
  if (scenario_.members) rosters_[shard].lost(holders(shard));
}

SimRedis& Fleet::target(const Fault& fault) {
  const auto found = targets_.find(&fault);
  if (found != targets_.end()) return *found->second;
  SimRedis& server = servers_.master(shard_of(fault));
  targets_[&fault] = &server;
  return server;
}

void Fleet::begin(const Fault& fault) {
  const std::size_t shard = shard_of(fault);
  if (scenario_.flood && fault.kind == scenario_.flood->kind &&
      fault.start == scenario_.flood->start) {
    note_flood();
  }
  SimRedis& server = target(fault);
  switch (fault.kind) {
    case FaultKind::outage:
      server.stop();
      if (canary_ == Canary::one_for_all) {
        for (std::size_t i = 0; i < servers_.shards(); ++i) servers_.master(i).stop();
      }
      break;
    case FaultKind::hang:
      server.hang();
      break;
    case FaultKind::slow:
      server.set_work(fault.amount);
      break;
    case FaultKind::delay:
      for (SimLink* link : servers_.links(fault.worker, shard)) link->latency += fault.amount;
      break;
    case FaultKind::cut:
    case FaultKind::silence:
      cut(fault, true, true);
      break;
    case FaultKind::cut_up:
      cut(fault, true, false);
      break;
    case FaultKind::cut_down:
    case FaultKind::lose_replies:
      cut(fault, false, true);
      break;
    case FaultKind::flush:
      server.redis().execute({"FLUSHALL"});
      note_loss(shard, loop_.mono());
      list_lost(shard);
      break;
    case FaultKind::members_gone:
      for (const auto& [key, value] : LuaRedis::Keys(server.keys())) {
        if (key.ends_with("}members")) server.redis().execute({"DEL", key});
      }
      list_lost(shard);
      break;
    case FaultKind::restart_empty:
    case FaultKind::restart_old:
      dumps_[&fault] = server.keys();
      break;
    case FaultKind::clock_step:
      server.set_ahead(server.ahead() + fault.amount);
      history_.steps.emplace_back(loop_.mono(), fault.amount);
      break;
    case FaultKind::scripts_gone:
      server.redis().execute({"SCRIPT", "FLUSH"});
      break;
    case FaultKind::restart_worker:
      restart(fault.worker);
      break;
    case FaultKind::crash_worker:
      if (!seats_[fault.worker].worker) break;
      end_worker(fault.worker, true);
      start_worker(fault.worker);
      break;
    case FaultKind::pause:
      pause(fault.worker);
      break;
    case FaultKind::leave:
      leave(fault);
      break;
    case FaultKind::reload:
      reload(fault, 0);
      break;
    case FaultKind::promote:
      shut_out(fault);
      break;
    case FaultKind::split:
      split(fault);
      break;
    case FaultKind::fallback_away:
      servers_.fallback()->stop();
      break;
    default:
      begin_metering(fault);
      break;
  }
}

void Fleet::mend(const Fault& fault) {
  const std::size_t shard = shard_of(fault);
  SimRedis& server = target(fault);
  switch (fault.kind) {
    case FaultKind::outage:
      server.start_with_what_it_had();
      if (canary_ == Canary::one_for_all) {
        for (std::size_t i = 0; i < servers_.shards(); ++i) {
          servers_.master(i).start_with_what_it_had();
        }
      }
      break;
    case FaultKind::hang:
      server.go_on();
      break;
    case FaultKind::slow:
      server.set_work(0ns);
      // What has come meanwhile is still to be done.
      for (std::uint32_t worker = 0; worker < kWorkers; ++worker) {
        history_.exposed.push_back({.worker = worker,
                                    .shard = shard,
                                    .from = loop_.mono(),
                                    .until = server.busy_until() + back_within_});
      }
      break;
    case FaultKind::delay:
      for (SimLink* link : servers_.links(fault.worker, shard)) link->latency -= fault.amount;
      break;
    case FaultKind::lose_replies:
      for (SimLink* link : servers_.links(fault.worker, shard)) {
        for (SimRedis* each : servers_.all()) each->reset(*link);
      }
      [[fallthrough]];
    case FaultKind::cut:
    case FaultKind::cut_up:
    case FaultKind::cut_down:
    case FaultKind::silence:
      mend_cut(fault);
      break;
    case FaultKind::restart_empty:
      server.start_with({});
      note_loss(shard, loop_.mono());
      list_lost(shard);
      break;
    case FaultKind::restart_old:
      server.start_with(dumps_[&fault]);
      note_loss(shard, loop_.mono());
      list_lost(shard);
      break;
    case FaultKind::leave:
      if (!seats_[fault.worker].worker) start_worker(fault.worker);
      break;
    case FaultKind::promote:
    case FaultKind::split:
      end_old_master(fault);
      break;
    case FaultKind::pause:
      go_on(fault);
      break;
    case FaultKind::fallback_away:
      servers_.fallback()->start_with_what_it_had();
      break;
    default:
      mend_metering(fault);
      break;
  }
}

// ---- A replica takes over.

void Fleet::shut_out(const Fault& fault) {
  const std::size_t shard = shard_of(fault);
  for (std::uint32_t worker = 0; worker < kWorkers; ++worker) {
    if (fault.stays(worker)) continue;
    SimLink* const link = servers_.links(worker, shard)[0];
    link->barred = true;
    target(fault).reset(*link);
  }
}

void Fleet::split(const Fault& fault) {
  for (std::uint32_t worker = 0; worker < kWorkers; ++worker) {
    if (fault.stays(worker)) continue;
    SimLink* const link = servers_.links(worker, shard_of(fault))[0];
    link->cut_up = link->cut_down = true;
  }
}

void Fleet::take_over(const Fault& fault) {
  const std::size_t shard = shard_of(fault);
  list_lost(shard);
  servers_.promote(shard, dumps_[&fault], fault.ahead);
  if (fault.ahead != 0ns) history_.steps.emplace_back(loop_.mono(), fault.ahead);
  for (std::uint32_t worker = 0; worker < kWorkers; ++worker) {
    if (!fault.stays(worker)) turn(worker, shard);
  }
}

// It is one of several again, and hears that it is no master any more; its workers do later.
void Fleet::demote(const Fault& fault) {
  const std::size_t shard = shard_of(fault);
  SimRedis& old = servers_.old_master(shard);
  for (std::uint32_t worker = 0; worker < kWorkers; ++worker) {
    if (fault.stays(worker)) continue;
    SimLink* const link = servers_.links(worker, shard)[0];
    link->cut_up = link->cut_down = false;
    old.mended(*link);
  }
  note_loss(shard, history_.began + fault.start - fault.amount);
  if (canary_ != Canary::never_demoted) old.demote();
}

void Fleet::end_old_master(const Fault& fault) {
  const std::size_t shard = shard_of(fault);
  // What it was told after the replica's copy, it was told for nothing.
  if (fault.kind == FaultKind::promote) {
    note_loss(shard, history_.began + fault.start - fault.amount);
    if (canary_ == Canary::stays_behind) return;
    servers_.old_master(shard).stop();
  } else {
    if (canary_ == Canary::never_demoted) return;
    list_lost(shard);
  }
  for (std::uint32_t worker = 0; worker < kWorkers; ++worker) {
    if (fault.stays(worker)) turn(worker, shard);
  }
}

void Fleet::turn(std::uint32_t worker, std::size_t shard) {
  const Way way = servers_.turn(worker, shard);
  Seat& seat = seats_[worker];
  if (!seat.worker) return;
  seat.process->hear([&seat, way, shard] { seat.worker->store().shard(shard).turn_to(way); });
}

void Fleet::reload(const Fault& fault, std::uint32_t worker) {
  if (worker == kWorkers) return;
  if (worker == 0) history_.reload.emplace(loop_.mono(), loop_.mono());
  history_.reload->second = loop_.mono();
  Seat& seat = seats_[worker];
  seat.on_disk = fault.numbers;
  if (seat.worker) {
    seat.process->hear([this, &seat, &fault] {
      seat.numbers = fault.numbers;
      history_.reload->second = loop_.mono();
      seat.worker->reload(policy(scenario_.temperament, fault.numbers));
    });
  }
  loop_.after(fault.length / kWorkers, [this, &fault, worker] { reload(fault, worker + 1); });
}

}  // namespace weir::sim
