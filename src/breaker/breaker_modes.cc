#include <algorithm>
#include <utility>

#include "breaker/breaker_core.h"

// What an operator sets, and how that ends.

namespace weir {
namespace {

constexpr bool forced(BreakerMode mode) {
  return mode == BreakerMode::forced_open || mode == BreakerMode::forced_closed;
}

constexpr bool works(BreakerMode mode) {
  return mode == BreakerMode::automatic || mode == BreakerMode::shadow;
}

std::int64_t ticks(MonoTime time) {
  return time.time_since_epoch().count();
}

bool says_more(const ModeOrder& order) {
  return !order.by.empty() || !order.reason.empty() || order.lasts.has_value();
}

}  // namespace

void BreakerCore::set_mode(ModeOrder order) {
  {
    std::lock_guard lock(mutex_);
    const BreakerMode before = mode_.load(std::memory_order_relaxed);
    if (before == order.mode && !says_more(order) && (!order_ || !says_more(*order_))) return;
    const MonoTime now = clock->mono();
    std::optional<MonoTime> ends;
    if (order.lasts) ends = now + *order.lasts;
    const auto said = std::make_shared<const ModeOrder>(order);
    // What is set for a while goes back to what was there before.
    if (!forced(order.mode) && !ends) {
      own_mode_ = order.mode;
      own_order_ = order.mode == BreakerMode::automatic ? nullptr : said;
    }
    if (carrier_ != nullptr && (forced(order.mode) || forced(before))) {
      const BreakerMode told = forced(order.mode) ? order.mode : BreakerMode::automatic;
      fleet_->force({.mode = told, .by = order.by, .reason = order.reason, .lasts = order.lasts},
                    forced(order.mode) ? ends : std::nullopt, now);
      carrier_->poke();
    }
    set_mode_locked(order.mode, said, ends, now, BreakerCause::operator_set);
  }
  events_.deliver();
}

std::optional<ModeOrder> BreakerCore::order() {
  const MonoTime now = clock->mono();
  if (mode_is_over(now)) end_mode(now);
  std::lock_guard lock(mutex_);
  if (!order_) return std::nullopt;
  ModeOrder order = *order_;
  order.lasts.reset();
  if (const auto ends = mode_end()) order.lasts = *ends - now;
  return order;
}

void BreakerCore::take_orders_of(BreakerCore& old) {
  std::optional<ModeOrder> now = old.order();
  std::shared_ptr<const ModeOrder> own;
  {
    std::lock_guard lock(old.mutex_);
    own = old.own_order_;
  }
  if (own && !(now && now->mode == own->mode)) set_mode(*own);
  if (now) set_mode(*std::move(now));
}

void BreakerCore::set_policy_mode(BreakerMode mode) {
  {
    std::lock_guard lock(mutex_);
    if (own_order_ != nullptr) return;  // an operator's for good, also while another one stands
    own_mode_ = mode;
    const BreakerMode before = mode_.load(std::memory_order_relaxed);
    if (order_ != nullptr || !works(before) || before == mode) return;
    set_mode_locked(mode, nullptr, {}, clock->mono(), BreakerCause::operator_set);
  }
  events_.deliver();
}

void BreakerCore::set_mode_locked(BreakerMode mode, std::shared_ptr<const ModeOrder> order,
                                  std::optional<MonoTime> ends, MonoTime now, BreakerCause cause) {
  const BreakerMode before = mode_.load(std::memory_order_relaxed);
  mode_.store(mode, std::memory_order_release);
  mode_ends_.store(ends ? ticks(*ends) : kNever, std::memory_order_release);
  mode_since_ = now;
  // An order that is over, or took another one back, is told once and does not stand.
  const bool stands = order && order->mode == mode && mode != BreakerMode::automatic &&
                      cause != BreakerCause::mode_over;
  order_ = stands ? order : nullptr;
  if (mode == before || (works(mode) && works(before))) {
    // The state stays; whoever listens hears of the mode.
    events_.push({.breaker = name_,
                  .from = state(),
                  .to = state(),
                  .mode = mode,
                  .cause = cause,
                  .at = now,
                  .order = std::move(order)});
  } else if (mode == BreakerMode::forced_open) {
    change_locked(Gate::forced_open, now, {.cause = cause, .order = std::move(order)});
  } else if (mode == BreakerMode::disabled) {
    change_locked(Gate::disabled, now, {.cause = cause, .order = std::move(order)});
  } else {
    openings_ = 0;
    close_locked(now, cause, std::move(order));
  }
}

bool BreakerCore::end_mode_locked(MonoTime now) {
  if (!mode_is_over(now)) return false;
  // The store's record says the same a moment later, by a clock that is read through the network:
  // it does not set it anew.
  if (forced(mode_.load(std::memory_order_relaxed)) && fleet_ && fleet_->record())
    mode_over_epoch_ = fleet_->record()->epoch;
  set_mode_locked(own_mode_, order_, {}, now, BreakerCause::mode_over);
  order_ = own_order_;
  return true;
}

void BreakerCore::end_mode(MonoTime now) noexcept {
  {
    std::lock_guard lock(mutex_);
    (void)end_mode_locked(now);
  }
  events_.deliver();
}

void BreakerCore::snapshot_mode_locked(MonoTime now, BreakerSnapshot& shot) const {
  shot.mode_for = std::max(Nanos::zero(), now - mode_since_);
  if (!order_) return;
  shot.mode_by = order_->by;
  shot.mode_reason = order_->reason;
  const std::int64_t ends = mode_ends_.load(std::memory_order_relaxed);
  if (ends != kNever) shot.mode_left = std::max(Nanos::zero(), Nanos(ends - ticks(now)));
}

// ---- Of one that a fleet shares

// What stands in the store, taken over: an operator set it at another worker, or this one's own
// word has arrived there.
void BreakerCore::follow_mode_locked(MonoTime now) {
  // What was set here is still on its way, and is the later word; disabled is this process's own.
  const BreakerMode mine = mode_.load(std::memory_order_relaxed);
  if (fleet_->forcing() || mine == BreakerMode::disabled) return;
  if (!fleet_->record()) {
    // The store has lost what an operator set: it is put back, unless somebody was faster.
    if (forced(mine) && fleet_->last_epoch() != 0) {
      ModeOrder order = order_ ? *order_ : ModeOrder{.mode = mine, .by = {}, .reason = {}};
      fleet_->put_back(std::move(order), mode_end());
      carrier_->poke();
    }
    return;
  }
  const std::uint64_t epoch = fleet_->record()->epoch;
  const BreakerMode theirs = epoch == mode_over_epoch_ ? BreakerMode::automatic : fleet_->mode(now);
  if (theirs == BreakerMode::automatic) {
    if (!forced(mine)) return;
    const bool over = mode_end() && fleet_->mode_is_over(now);
    auto order = over ? order_ : std::make_shared<const ModeOrder>(fleet_->order());
    set_mode_locked(own_mode_, std::move(order), {}, now,
                    over ? BreakerCause::mode_over : BreakerCause::fleet);
    order_ = own_order_;
    return;
  }
  if (theirs == mine && epoch == mode_epoch_) return;
  mode_epoch_ = epoch;
  auto order = std::make_shared<const ModeOrder>(fleet_->order());
  const std::optional<MonoTime> ends = fleet_->mode_ends();
  const bool told = theirs == mine && order_ && order_->by == order->by &&
                    order_->reason == order->reason && mode_end().has_value() == ends.has_value();
  if (!told) {
    set_mode_locked(theirs, std::move(order), ends, now, BreakerCause::fleet);
    mode_since_ = std::min(fleet_->since(), now);
    return;
  }
  // Its own order, come back: it ends by the store's clock from now on.
  mode_ends_.store(ends ? ticks(*ends) : kNever, std::memory_order_release);
}

std::optional<MonoTime> BreakerCore::mode_end() const noexcept {
  const std::int64_t ends = mode_ends_.load(std::memory_order_relaxed);
  return ends == kNever ? std::nullopt : std::optional(MonoTime{Nanos(ends)});
}

}  // namespace weir
