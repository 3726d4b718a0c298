#include "guard/usage_recorder.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/key_digest.h"
#include "ledger/journal.h"
#include "ledger/ledger.h"
#include "ledger/settler.h"
#include "limit/step.h"
#include "policy/key.h"
#include "render/text.h"

namespace weir::guard {
namespace {

constexpr std::string_view kHex = "0123456789abcdef";

std::uint64_t random_number() {
  const KeyHasher::Secret secret = KeyHasher::random_secret();
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < 8; ++i) number = number << 8 | secret[i];
  return number;
}

void append_escaped(std::string_view value, std::string& out) {
  for (std::size_t i = 0; i < value.size(); ++i) {
    const char c = value[i];
    if (c != '%' && c != '/' && !(i == 0 && (c == '~' || c == '#'))) {
      out.push_back(c);
      continue;
    }
    out.push_back('%');
    out.push_back(kHex[static_cast<unsigned char>(c) >> 4]);
    out.push_back(kHex[static_cast<unsigned char>(c) & 15]);
  }
}

// The rule's period that `at` falls into: of rules without windows, one of those that lie from the
// epoch on.
Instant window_start(const limit::Numbers& numbers, Instant at) {
  const std::int64_t now = at.time_since_epoch().count();
  if (numbers.algorithm == Algorithm::fixed_window)
    return Instant{Nanos(limit::window_at(numbers, at).start_ns)};
  return Instant{Nanos(now - now % numbers.period_ns)};
}

}  // namespace

std::string tenant_of(std::string_view key) {
  std::string out;
  std::string_view rest = key.substr(8);
  for (bool first = true; !rest.empty(); first = false) {
    if (!first) out.push_back('/');
    const auto length = static_cast<unsigned char>(rest.front());
    rest.remove_prefix(1);
    if (length == policy::KeyWriter::kAbsent) {
      out.push_back('~');
      continue;
    }
    if (length != policy::KeyWriter::kDigested) {
      append_escaped(rest.substr(0, length), out);
      rest.remove_prefix(length);
      continue;
    }
    out.push_back('#');
    for (const char c : rest.substr(0, sizeof(ValueDigester::Digest))) {
      out.push_back(kHex[static_cast<unsigned char>(c) >> 4]);
      out.push_back(kHex[static_cast<unsigned char>(c) & 15]);
    }
    rest.remove_prefix(sizeof(ValueDigester::Digest));
  }
  return out;
}

// One event for each metered rule, and what they point to.
class UsageRecorder::Events {
 public:
  Events(const Plan& plan, const Usage& usage, std::uint64_t process,
         std::atomic<std::uint64_t>& next) {
    const policy::Route& route = *plan.route->route;
    for (std::size_t i = 0; i < plan.count; ++i) {
      if ((usage.metered >> i & 1) == 0) continue;
      const store::Counter& counter = plan.counters[i];
      tenants_[count_] = tenant_of(counter.key);
      events_[count_] = {
          .id = {process, next.fetch_add(1, std::memory_order_relaxed)},
          .tenant = tenants_[count_],
          .route = plan.route->name,
          .rule = plan.rules[i]->name,
          .units = usage.cost,
          .overspent = (usage.overspent >> i & 1) != 0 ? usage.cost : 0,
          .mode = route.overspend ? route.overspend->mode : policy::OverspendMode::bill,
          .outage = usage.outage,
          .at = usage.at,
          .window_start = window_start(*counter.numbers, usage.at),
          .window = Nanos(counter.numbers->period_ns)};
      ++count_;
    }
  }
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;
  std::span<const ledger::UsageEvent> view() const { return {events_.data(), count_}; }

 private:
  std::array<std::string, kMaxRules> tenants_;
  std::array<ledger::UsageEvent, kMaxRules> events_;
  std::size_t count_ = 0;
};

Result<std::unique_ptr<UsageRecorder>> UsageRecorder::open(const policy::JournalSpec& spec,
                                                           Clock& clock, render::Metrics& metrics,
                                                           Observer* observer) {
  std::unique_ptr<UsageRecorder> recorder(new UsageRecorder(clock, metrics));
  const auto tell = [observer](StoreEvent::Kind good, StoreEvent::Kind bad) {
    return [observer, good, bad](bool works, const std::string& why) {
      if (observer != nullptr) observer->on_store_event({.kind = works ? good : bad, .why = why});
    };
  };
  auto journal = ledger::Journal::open(
      {.folder = spec.folder,
       .max_bytes = spec.max_bytes,
       .within = spec.within,
       .changed = tell(StoreEvent::Kind::journal_works, StoreEvent::Kind::journal_fails)});
  if (!journal) return journal.error();
  recorder->process_ = random_number();
  recorder->journal_ = std::move(*journal);
  const std::string url =
      spec.ledger.empty() ? "sqlite:" + spec.folder + "/ledger.db" : spec.ledger;
  ledger::Settler::Options settling;
  settling.changed = tell(StoreEvent::Kind::ledger_works, StoreEvent::Kind::ledger_fails);
  recorder->settler_ = std::make_unique<ledger::Settler>(
      *recorder->journal_, [url] { return ledger::open_ledger(url); }, clock, std::move(settling));
  UsageRecorder* self = recorder.get();
  recorder->source_ =
      metrics.add_source([self](render::Exposition& out) { self->write_metrics(out); });
  return recorder;
}

UsageRecorder::UsageRecorder(Clock& clock, render::Metrics& metrics)
    : clock_(clock), metrics_(metrics) {}

bool UsageRecorder::has_room() const {
  return journal_->has_room();
}

bool UsageRecorder::writable() const {
  return journal_->writable();
}

UsageRecorder::~UsageRecorder() {
  (void)close();
}

std::uint64_t UsageRecorder::close() noexcept {
  if (source_ != 0) metrics_.remove_source(std::exchange(source_, 0));
  settler_.reset();
  return journal_ ? journal_->close() : 0;
}

bool UsageRecorder::in_its_thread() const noexcept {
  return journal_->in_its_thread();
}

std::uint64_t UsageRecorder::metered(const Plan& plan) noexcept {
  if (plan.route->route->when_store_fails != FailurePolicy::settle) return 0;
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < plan.count; ++i) {
    if (plan.rules[i]->rule->meter && !plan.rules[i]->shadow) bits |= std::uint64_t{1} << i;
  }
  return bits;
}

bool UsageRecorder::follow(const Plan& plan, const Usage& usage) {
  const Events events(plan, usage, process_, next_);
  return journal_->follow(events.view());
}

void UsageRecorder::append(const Plan& plan, const Usage& usage, std::function<void(bool)> done) {
  const Events events(plan, usage, process_, next_);
  journal_->append(events.view(), [done = std::move(done)](const Result<void>& durable) {
    done(durable.has_value());
  });
}

void UsageRecorder::write_metrics(render::Exposition& out) const {
  using Type = render::Exposition::Type;
  const ledger::JournalStatus journal = journal_->status();
  const ledger::SettlerStatus settler = settler_->status();
  out.family("weir_journal_events_total", Type::counter, "Usage events, by what became of them.");
  out.sample({{"state", "recorded"}}, journal.recorded);
  out.sample({{"state", "refused"}}, journal.refused);
  out.sample({{"state", "settled"}}, settler.settled);
  out.sample({{"state", "quarantined"}}, settler.rejected);
  out.family("weir_journal_writable", Type::gauge, "Whether usage can be recorded.");
  out.sample(std::uint64_t{journal.writable ? 1U : 0U});
  out.family("weir_journal_failures_total", Type::counter,
             "Times that usage could be recorded no more.");
  out.sample(journal.failures);
  out.family("weir_journal_unsettled_events", Type::gauge,
             "Usage events in the journal that the ledger has not taken.");
  out.sample(journal.counts.unsettled);
  out.family("weir_journal_quarantined_events", Type::gauge,
             "Usage events in the journal that the ledger would not take.");
  out.sample(journal.counts.quarantined);
  out.family("weir_journal_oldest_unsettled_seconds", Type::gauge,
             "Age of the oldest usage event that the ledger has not taken; 0: none waits.");
  out.sample(journal.counts.oldest
                 ? std::max(Nanos(0), Nanos(clock_.now() - *journal.counts.oldest))
                 : Nanos(0));
  out.family("weir_journal_file_bytes", Type::gauge, "What the journal takes of its disk.");
  out.sample(journal.file_bytes);
  out.family("weir_ledger_answering", Type::gauge, "Whether the ledger takes usage events.");
  out.sample(std::uint64_t{settler.working ? 1U : 0U});
}

std::string UsageRecorder::state_json() const {
  const ledger::JournalStatus journal = journal_->status();
  const ledger::SettlerStatus settler = settler_->status();
  std::string out = std::string("{\"writable\":") + (journal.writable ? "true" : "false");
  const auto text = [&out](std::string_view name, const std::string& value) {
    if (value.empty()) return;
    out.append(",\"").append(name).append("\":");
    render::append_json_string(out, value);
  };
  const auto number = [&out](std::string_view name, std::uint64_t value) {
    out.append(",\"").append(name).append("\":");
    render::append_number(out, value);
  };
  text("why_not_writable", journal.why);
  number("unsettled", journal.counts.unsettled);
  number("unsettled_bytes", journal.counts.unsettled_bytes);
  number("quarantined", journal.counts.quarantined);
  number("waiting", journal.waiting);
  number("max_bytes", journal_->options().max_bytes);
  number("file_bytes", journal.file_bytes);
  out += std::string(",\"ledger_answering\":") + (settler.working ? "true" : "false");
  text("why_ledger_silent", settler.why);
  return out + "}";
}

}  // namespace weir::guard
