#pragma once

#include <cstdint>

#include "limit/numbers.h"
#include "limit/reach.h"
#include "limit/step.h"
#include "weir/clock.h"

namespace weir::store {

// A counter's state as a slot holds it: 96 bits.
//
//   gcra            word: theoretical arrival time, ns
//   fixed_window    word: start of the window, ns; aux: units used in it
//   sliding_window  word: units used in this window (high half) and in the one before (low half);
//                   aux: the window's number since the epoch, modulo 2^32
//
// Guarantees:  unpack(pack(state)) is state. For sliding windows: as long as the state is younger
// than 2^31 windows,
//              68 years for the shortest window that fits a slot.
struct PackedState {
  std::uint64_t word = 0;
  std::uint32_t aux = 0;
};

inline constexpr std::int64_t kShortestSlidingWindowInSlot = 1'000'000'000;

// Whether a counter of these numbers fits a slot: a log does not, nor does a sliding window so
// short that its number would come around while the process runs.
inline bool fits_slot(const limit::Numbers& numbers) noexcept {
  return numbers.algorithm == Algorithm::gcra || numbers.algorithm == Algorithm::fixed_window ||
         (numbers.algorithm == Algorithm::sliding_window &&
          numbers.period_ns >= kShortestSlidingWindowInSlot);
}

inline PackedState pack(const limit::Numbers& numbers, const limit::State& state) noexcept {
  if (numbers.algorithm == Algorithm::sliding_window) {
    return {(std::uint64_t{state.current} << 32) | state.previous,
            static_cast<std::uint32_t>(state.time_ns / numbers.period_ns)};
  }
  return {static_cast<std::uint64_t>(state.time_ns), state.current};
}

inline limit::State unpack(const limit::Numbers& numbers, const PackedState& packed,
                           Instant now) noexcept {
  if (numbers.algorithm == Algorithm::sliding_window) {
    const std::int64_t near = limit::instant_ns(now) / numbers.period_ns;
    const auto ahead = static_cast<std::int32_t>(packed.aux - static_cast<std::uint32_t>(near));
    return {(near + ahead) * numbers.period_ns, static_cast<std::uint32_t>(packed.word >> 32),
            static_cast<std::uint32_t>(packed.word)};
  }
  return {static_cast<std::int64_t>(packed.word), packed.aux, 0};
}

}  // namespace weir::store
