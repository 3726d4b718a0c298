#include "drill/proxy/toxic.h"

#include <algorithm>

namespace weir::drill {
namespace {

using Attribute = ToxicForm::Attribute;
using Kind = Toxic::Kind;

constexpr std::int64_t kMostMs = 3'600'000;
constexpr std::int64_t kMostBytes = std::int64_t{1} << 40;

constexpr std::array kLatency{Attribute{"latency", 0, 0, kMostMs},
                              Attribute{"jitter", 0, 0, kMostMs}};
constexpr std::array kBandwidth{Attribute{"rate", 1'000, 1, 10'000'000}};
constexpr std::array kSlowClose{Attribute{"delay", 0, 0, kMostMs}};
constexpr std::array kTimeout{Attribute{"timeout", 0, 0, kMostMs}};
constexpr std::array kSlicer{Attribute{"average_size", 1'024, 1, kMostBytes},
                             Attribute{"size_variation", 0, 0, kMostBytes},
                             Attribute{"delay", 0, 0, kMostMs * 1'000}};
constexpr std::array kLimitData{Attribute{"bytes", 0, 0, kMostBytes}};
constexpr std::array kDrip{Attribute{"delay", 10, 1, 10'000}};
constexpr std::array kTruncate{Attribute{"percent", 100, 1, 100}};

constexpr std::array kForms{
    ToxicForm{Kind::latency, "latency", kLatency},
    ToxicForm{Kind::bandwidth, "bandwidth", kBandwidth},
    ToxicForm{Kind::slow_close, "slow_close", kSlowClose},
    ToxicForm{Kind::timeout, "timeout", kTimeout},
    ToxicForm{Kind::reset_peer, "reset_peer", kTimeout},
    ToxicForm{Kind::slicer, "slicer", kSlicer},
    ToxicForm{Kind::limit_data, "limit_data", kLimitData},
    ToxicForm{Kind::blackhole, "blackhole", {}},
    ToxicForm{Kind::refuse, "refuse", {}},
    ToxicForm{Kind::drop, "drop", {}},
    ToxicForm{Kind::stall, "stall", {}},
    ToxicForm{Kind::drip, "drip", kDrip},
    ToxicForm{Kind::truncate, "truncate", kTruncate},
};

Nanos ms(std::int64_t value) {
  return std::chrono::milliseconds(value);
}

template <class Limit>
void narrow(std::optional<Limit>& limit, Limit to) {
  limit = limit ? std::min(*limit, to) : to;
}

void lose(WayFaults& faults) {
  faults.flow = ProxyFaults::Flow::drop;
  faults.percent = 100;
}

// What Toxiproxy calls jitter lies on both sides of the latency.
void add_latency(const Toxic& toxic, WayFaults& faults) {
  const std::int64_t jitter = std::min(toxic.values[0], toxic.values[1]);
  faults.delay += ms(toxic.values[0] - jitter);
  faults.jitter += ms(jitter + toxic.values[1]);
}

}  // namespace

WayFaults WayFaults::of(const ProxyFaults& faults, bool replies) {
  WayFaults way{.flow = replies ? faults.replies : faults.requests,
                .percent = faults.percent,
                .delay = replies ? faults.reply_delay : faults.request_delay,
                .jitter = faults.jitter};
  if (replies) {
    way.cut = faults.cut;
    way.between_bytes = faults.between_bytes;
    way.bytes_per_second = faults.reply_rate;
  }
  return way;
}

std::span<const ToxicForm> toxic_forms() {
  return kForms;
}

const ToxicForm& form_of(Toxic::Kind kind) {
  return kForms[static_cast<std::size_t>(kind)];
}

const ToxicForm* form_named(std::string_view word) {
  const auto found = std::find_if(kForms.begin(), kForms.end(),
                                  [word](const ToxicForm& form) { return form.word == word; });
  return found == kForms.end() ? nullptr : &*found;
}

std::string_view to_string(Toxic::Stream stream) {
  return stream == Toxic::Stream::upstream ? "upstream" : "downstream";
}

Toxic usual_toxic(Toxic::Kind kind) {
  Toxic toxic{.name = {}, .kind = kind};
  const auto attributes = form_of(kind).attributes;
  for (std::size_t i = 0; i < attributes.size(); ++i) toxic.values[i] = attributes[i].usual;
  return toxic;
}

void add_toxic(const Toxic& toxic, bool replies, WayFaults& faults) {
  if (toxic.kind == Kind::blackhole) return lose(faults);
  if ((toxic.stream == Toxic::Stream::downstream) != replies) return;
  const auto& values = toxic.values;
  switch (toxic.kind) {
    case Kind::latency:
      return add_latency(toxic, faults);
    case Kind::bandwidth:
      return narrow(faults.bytes_per_second, static_cast<std::uint64_t>(values[0]) * 1'000);
    case Kind::slow_close:
      faults.close_delay += ms(values[0]);
      return;
    case Kind::timeout:
      lose(faults);
      faults.closes_when_over = true;
      if (values[0] > 0) narrow(faults.close_after, ms(values[0]));
      return;
    case Kind::reset_peer:
      lose(faults);
      return narrow(faults.reset_after, ms(values[0]));
    case Kind::slicer:
      faults.slices = {.average = static_cast<std::uint64_t>(values[0]),
                       .variation = static_cast<std::uint64_t>(values[1]),
                       .apart = std::chrono::microseconds(values[2])};
      return;
    case Kind::limit_data:
      return narrow(faults.most_bytes, static_cast<std::uint64_t>(values[0]));
    case Kind::drop:
      return lose(faults);
    case Kind::stall:
      if (faults.flow == ProxyFaults::Flow::pass) faults.flow = ProxyFaults::Flow::stall;
      return;
    case Kind::drip:
      faults.between_bytes += ms(values[0]);
      return;
    case Kind::truncate:
      faults.cut = ProxyFaults::Cut::inside_reply;
      if (faults.flow != ProxyFaults::Flow::drop) {
        faults.percent = static_cast<std::uint32_t>(values[0]);
      }
      return;
    case Kind::blackhole:
    case Kind::refuse:
      return;
  }
}

}  // namespace weir::drill
