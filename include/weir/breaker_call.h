#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include "weir/breaker.h"

namespace weir {

// What a guarded call came to: its value, the exception it threw, or that it was not made.
//
// Guarantees:  only value() throws.
// Threads:     as T.
template <class T>
class [[nodiscard]] Called {
  using Value = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

 public:
  explicit Called(Value value) : state_(std::in_place_index<0>, std::move(value)) {}
  explicit Called(std::exception_ptr failure)
      : state_(std::in_place_index<1>, std::move(failure)) {}
  explicit Called(Rejected rejected) : state_(std::in_place_index<2>, rejected) {}

  bool has_value() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return has_value(); }
  Value& operator*() noexcept { return *std::get_if<0>(&state_); }
  const Value& operator*() const noexcept { return *std::get_if<0>(&state_); }
  Value* operator->() noexcept { return std::get_if<0>(&state_); }

  // What the call threw; null where it did not.
  std::exception_ptr failure() const noexcept {
    const auto* failure = std::get_if<1>(&state_);
    return failure != nullptr ? *failure : nullptr;
  }
  // Null where the call was made.
  const Rejected* rejected() const noexcept { return std::get_if<2>(&state_); }

  // The value; throws what the call threw, and BadResultAccess where it was not made.
  Value& value() {
    if (std::exception_ptr failed = failure()) std::rethrow_exception(failed);
    if (const Rejected* no = rejected())
      throw BadResultAccess({ErrorCode::unavailable, "the circuit breaker rejected the call: " +
                                                         std::string(to_string(no->reason))});
    return *std::get_if<0>(&state_);
  }

 private:
  std::variant<Value, std::exception_ptr, Rejected> state_;
};

namespace detail {

template <class T>
struct IsResult : std::false_type {};
template <class T>
struct IsResult<Result<T>> : std::true_type {};

// What callers' own mistakes say nothing about: the dependency answered.
inline CallVerdict verdict_of(const Error& error) noexcept {
  switch (error.code) {
    case ErrorCode::invalid_argument:
    case ErrorCode::not_found:
    case ErrorCode::failed_precondition:
      return Outcome::ignored;
    case ErrorCode::unavailable:
    case ErrorCode::resource_exhausted:
    case ErrorCode::internal:
      break;
  }
  return Outcome::failure;
}

}  // namespace detail

// How a call ended, where the caller does not say: what threw failed; so did a Result with an error
// that the dependency is to blame for (unavailable, resource_exhausted, internal), while other
// errors are ignored; all else is ok.
struct DefaultClassifier {
  template <class T>
  CallVerdict operator()(const T& value) const noexcept {
    if constexpr (detail::IsResult<T>::value) {
      return value.has_value() ? CallVerdict(Outcome::ok) : detail::verdict_of(value.error());
    } else {
      (void)value;
      return Outcome::ok;
    }
  }
  CallVerdict operator()(const std::exception_ptr& failure) const noexcept {
    (void)failure;
    return Outcome::failure;
  }
};

namespace detail {

// A classifier may speak of values, of exceptions, or of both; the default speaks of the rest.
template <class Classify, class What>
CallVerdict classified(Classify& classify, const What& what) {
  if constexpr (std::is_invocable_r_v<CallVerdict, Classify&, const What&>)
    return classify(what);
  else
    return DefaultClassifier{}(what);
}

template <class Call>
auto called(Call& call) -> Called<std::invoke_result_t<Call&>> {
  using T = std::invoke_result_t<Call&>;
  if constexpr (std::is_void_v<T>) {
    call();
    return Called<T>(std::monostate{});
  } else {
    return Called<T>(call());
  }
}

template <class T, class Call>
Called<T> called_or_failed(Call& call) {
  try {
    return called(call);
  } catch (...) {
    return Called<T>(std::current_exception());
  }
}

template <class T, class Classify>
CallVerdict verdict_on(const Called<T>& outcome, Classify& classify) {
  return outcome.has_value() ? classified(classify, *outcome)
                             : classified(classify, outcome.failure());
}

}  // namespace detail

// Makes the call if the breaker lets it, and reports how it ended.
//
// `classify` takes the value, a std::exception_ptr, or either (overloaded), and returns a
// CallVerdict. What it throws is taken as the call's own exception, and counts as a failure.
//
// Guarantees:  `call` runs at most once; nothing is thrown but by copying values.
template <class Call, class Classify = DefaultClassifier>
auto run(Breaker& breaker, Call&& call, Classify&& classify = {})
    -> Called<std::invoke_result_t<Call&>> {
  using T = std::invoke_result_t<Call&>;
  Admission admission = breaker.admit();
  if (!admission) return Called<T>(admission.rejected());
  try {
    Called<T> outcome = [&] {
      try {
        return detail::called(call);
      } catch (...) {
        return Called<T>(std::current_exception());
      }
    }();
    admission.permit().report(detail::verdict_on(outcome, classify));
    return outcome;
  } catch (...) {
    admission.permit().report(Outcome::failure);
    return Called<T>(std::current_exception());
  }
}

// As run(); where there is no value, what `fallback` makes of the rejection or the exception.
// `fallback` takes `const Called<T>&` and returns what `call` returns; what it throws is thrown.
template <class Call, class Fallback, class Classify = DefaultClassifier>
auto run_with_fallback(Breaker& breaker, Call&& call, Fallback&& fallback, Classify&& classify = {})
    -> std::invoke_result_t<Call&> {
  auto outcome = run(breaker, std::forward<Call>(call), std::forward<Classify>(classify));
  if constexpr (std::is_void_v<std::invoke_result_t<Call&>>) {
    if (!outcome.has_value()) fallback(std::as_const(outcome));
  } else {
    if (!outcome.has_value()) return fallback(std::as_const(outcome));
    return std::move(*outcome);
  }
}

// What a call that was dropped unfinished ends with.
class AbandonedCall : public std::exception {
 public:
  const char* what() const noexcept override { return "a call was dropped without an answer"; }
};

// The end of a call that runs elsewhere. Finish it once; one that is dropped unfinished gives back
// what it held, does not vote, and answers with the exception AbandonedCall.
//
// Threads:     one at a time; may move between threads.
template <class T>
class AsyncCall {
 public:
  using Done = std::function<void(Called<T>)>;
  using Classify = std::function<CallVerdict(const Called<T>&)>;

  AsyncCall(Breaker breaker, Permit permit, Classify classify, Done done)
      : state_(std::make_unique<State>(std::move(breaker), std::move(permit), std::move(classify),
                                       std::move(done))) {}
  AsyncCall(AsyncCall&&) noexcept = default;
  AsyncCall& operator=(AsyncCall&& other) noexcept {
    abandon();
    state_ = std::move(other.state_);
    return *this;
  }
  ~AsyncCall() { abandon(); }

  void finish(Called<T> outcome) {
    const std::unique_ptr<State> state = std::move(state_);
    if (!state) return;
    CallVerdict verdict = Outcome::failure;
    try {
      verdict = state->classify(outcome);
    } catch (...) {
      outcome = Called<T>(std::current_exception());
    }
    state->permit.report(verdict);
    state->done(std::move(outcome));
  }
  void value(std::conditional_t<std::is_void_v<T>, std::monostate, T> value) {
    finish(Called<T>(std::move(value)));
  }
  void fail(std::exception_ptr failure) { finish(Called<T>(std::move(failure))); }

 private:
  struct State {
    State(Breaker b, Permit p, Classify c, Done d)
        : breaker(std::move(b)), permit(std::move(p)), classify(std::move(c)), done(std::move(d)) {}
    Breaker breaker;  // keeps it alive
    Permit permit;
    Classify classify;
    Done done;
  };
  void abandon() noexcept {
    const std::unique_ptr<State> state = std::move(state_);
    if (!state) return;
    { const Permit dropped = std::move(state->permit); }
    try {
      state->done(Called<T>(std::make_exception_ptr(AbandonedCall())));
    } catch (...) {  // nobody is left who could hear of it
    }
  }
  std::unique_ptr<State> state_;
};

// Starts a call that ends elsewhere, if the breaker lets it: `start` is handed an AsyncCall<T> to
// finish; `done` is called exactly once: by finish(), by the AsyncCall's end, or with the
// rejection. A call that `start` throws out of is dropped unfinished.
//
// Threads:     never waits. Where the breaker is shared and this call may be its probe, `start`
//              (or, rejected, `done`) is called in the thread that speaks to the store; else before
//              this returns.
template <class T, class Start, class Classify = DefaultClassifier>
void run_async(Breaker breaker, Start&& start, typename AsyncCall<T>::Done done,
               Classify classify = {}) {
  struct Asked {
    Breaker breaker;
    std::decay_t<Start> start;
    typename AsyncCall<T>::Done done;
    Classify classify;
  };
  const auto asked = std::make_shared<Asked>(
      Asked{std::move(breaker), std::forward<Start>(start), std::move(done), std::move(classify)});
  asked->breaker.admit_async([asked](Admission admission) {
    if (!admission) return asked->done(Called<T>(admission.rejected()));
    const auto verdict = [classify = std::move(asked->classify)](const Called<T>& outcome) mutable {
      return detail::verdict_on(outcome, classify);
    };
    asked->start(AsyncCall<T>(asked->breaker, std::move(admission.permit()), verdict,
                              std::move(asked->done)));
  });
}

// As run_async(); where there is no value, `done` is given what `fallback` makes of the rejection
// or the exception. `fallback` takes `const Called<T>&` and returns a T; what it throws is the
// outcome.
template <class T, class Start, class Fallback, class Classify = DefaultClassifier>
void run_async_with_fallback(Breaker breaker, Start&& start, Fallback&& fallback,
                             typename AsyncCall<T>::Done done, Classify classify = {}) {
  // A std::function copies what it holds, and a fallback need not be copyable.
  auto instead = std::make_shared<std::decay_t<Fallback>>(std::forward<Fallback>(fallback));
  run_async<T>(
      std::move(breaker), std::forward<Start>(start),
      [instead = std::move(instead), done = std::move(done)](Called<T>&& outcome) {
        if (outcome.has_value()) return done(std::move(outcome));
        const auto call = [&] { return (*instead)(std::as_const(outcome)); };
        done(detail::called_or_failed<T>(call));
      },
      std::move(classify));
}

}  // namespace weir
