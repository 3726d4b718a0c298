#include "weir/reservation.h"

#include <chrono>
#include <future>
#include <memory>

#include "guard/descriptor_values.h"
#include "guard/impl.h"

namespace weir {
namespace {

std::shared_ptr<guard::MeteredCall> call_of(ReservationTerms terms) {
  auto call = std::make_shared<guard::MeteredCall>();
  call->reserve = terms;
  return call;
}

Error no_journal() {
  return {ErrorCode::not_found,
          "reservation: the policy names no journal, and nothing is reserved"};
}

}  // namespace

Reservation Reservations::reserve(std::string_view route, std::span<const Descriptor> descriptors,
                                  std::uint64_t estimate, ReservationTerms terms) {
  const auto call = call_of(terms);
  Decision decision =
      guard_.impl().check(route, guard::DescriptorValues(descriptors), {.cost = estimate}, call);
  // A call that left before its usage was durable may still be given an id: nobody looks at it.
  if (!decision.allowed()) return {.decision = std::move(decision), .id = {}};
  return {.decision = std::move(decision), .id = std::move(call->reservation)};
}

void Reservations::reserve_async(std::string_view route, std::span<const Descriptor> descriptors,
                                 std::uint64_t estimate, ReservationTerms terms,
                                 std::function<void(Reservation)> done) {
  const auto call = call_of(terms);
  guard_.impl().check_async(
      route, guard::DescriptorValues(descriptors), {.cost = estimate},
      [call, done = std::move(done)](Decision decision) {
        done({.decision = std::move(decision), .id = std::move(call->reservation)});
      },
      call);
}

namespace {

// Whoever waits for a disk that hangs is told so; the reservation may end all the same.
void settle_by(guard::UsageRecorder& usage, std::string_view reservation, std::uint64_t units,
               std::function<void(Result<Settlement>)> done) {
  const auto told = std::make_shared<std::function<void(Result<Settlement>)>>(std::move(done));
  const auto place = usage.waits().begin(guard::kDiskHangs, [told] {
    (*told)(Error{ErrorCode::unavailable,
                  "reservation: the disk does not answer; settle it again, as the same units"});
  });
  usage.reservations().settle(reservation, units, [told, place, &usage](Result<Settlement> result) {
    if (usage.waits().end(place)) (*told)(std::move(result));
  });
}

}  // namespace

void Reservations::settle_async(std::string_view reservation, std::uint64_t units,
                                std::function<void(Result<Settlement>)> done) {
  guard::UsageRecorder* const usage = guard_.impl().usage();
  if (usage == nullptr) {
    done(no_journal());
    return;
  }
  settle_by(*usage, reservation, units, std::move(done));
}

Result<Settlement> Reservations::settle(std::string_view reservation, std::uint64_t units) {
  guard::UsageRecorder* const usage = guard_.impl().usage();
  if (usage == nullptr) return no_journal();
  const guard::SharedStore* const shared = guard_.impl().shared();
  if (usage->in_its_thread() || (shared != nullptr && shared->in_its_thread())) {
    return Error{ErrorCode::failed_precondition,
                 "reservation: a callback must not wait for the disk; use settle_async"};
  }
  auto told = std::make_shared<std::promise<Result<Settlement>>>();
  auto answer = told->get_future();
  settle_by(*usage, reservation, units,
            [told](Result<Settlement> result) { told->set_value(std::move(result)); });
  return answer.get();
}

Result<Nanos> Reservations::heartbeat(std::string_view reservation, std::uint64_t so_far) {
  guard::UsageRecorder* const usage = guard_.impl().usage();
  if (usage == nullptr) return no_journal();
  return usage->reservations().heartbeat(reservation, so_far);
}

}  // namespace weir
