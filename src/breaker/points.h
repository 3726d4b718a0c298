#pragma once

#include <cstdint>

namespace weir::breaker {

// Where a test holds a thread: between two steps that other threads can see.
enum class Point : std::uint8_t {
  word_checked,   // a closed call's result: its generation is this one, and nothing is counted yet
  bucket_chosen,  // LastTime: the bucket is this generation's, and the call is not in it yet
  cell_taken,     // LastCalls: the call is in its cell, and not yet in the totals
  deadline_written,  // opening: the end of the wait stands, and the state does not yet
  generation_left,   // closing: the old generation is over, and the new window has not begun
  wait_seen_over,    // open: this call found the wait over
  slot_seen_free,    // half-open: this call found a slot free
};

// What ships has no points: only the program that is built from these sources with
// WEIR_BREAKER_POINTS, whose test says what happens there.
#ifdef WEIR_BREAKER_POINTS
void at(Point point) noexcept;
#else
constexpr void at(Point) noexcept {}
#endif

}  // namespace weir::breaker
