#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace weir {

// What kind of failure an Error is, chosen by what the caller should do next.
enum class ErrorCode {
  invalid_argument,     // the input is wrong; correct it, repeating is useless
  not_found,            // the named thing does not exist
  failed_precondition,  // right in itself, but not in this state or this build; change that first
  unavailable,          // a dependency did not answer; the same call may succeed later
  resource_exhausted,   // a stated bound was reached
  internal,             // a fault of Weir itself
};

std::string_view to_string(ErrorCode code);

// Why something could not be done. A denial is never an Error: it is an answer (see decision.h).
// `message` is whole: where, what, and what is allowed; it may hold several lines, one a fault.
struct Error {
  ErrorCode code = ErrorCode::internal;
  std::string message;
};

// Thrown by Result::value() alone, where a caller asked for a value that is not there.
class BadResultAccess : public std::exception {
 public:
  explicit BadResultAccess(Error error) : error_(std::move(error)) {}
  const char* what() const noexcept override { return error_.message.c_str(); }
  const Error& error() const noexcept { return error_; }

 private:
  Error error_;
};

// A value or an Error, with the names of std::expected, which g++ 12 does not have in C++20 mode.
//
// Guarantees:  no member throws but value(), and that only where there is no value.
// Threads:     as T.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value)
      : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT: implicit by intent
  Result(Error error)
      : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit by intent

  bool has_value() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return has_value(); }

  T& operator*() & noexcept { return *std::get_if<0>(&state_); }
  const T& operator*() const& noexcept { return *std::get_if<0>(&state_); }
  T&& operator*() && noexcept { return std::move(*std::get_if<0>(&state_)); }
  T* operator->() noexcept { return std::get_if<0>(&state_); }
  const T* operator->() const noexcept { return std::get_if<0>(&state_); }

  T& value() & { return require(), **this; }
  const T& value() const& { return require(), **this; }
  T&& value() && { return require(), std::move(**this); }

  // Requires: !has_value().
  const Error& error() const& noexcept { return *std::get_if<1>(&state_); }
  Error&& error() && noexcept { return std::move(*std::get_if<1>(&state_)); }

 private:
  void require() const {
    if (!has_value()) throw BadResultAccess(error());
  }

  std::variant<T, Error> state_;
};

// Success without a value, or an Error.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : state_(std::move(error)) {}  // NOLINT: implicit by intent

  bool has_value() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return has_value(); }
  void value() const {
    if (!has_value()) throw BadResultAccess(error());
  }
  const Error& error() const noexcept { return *std::get_if<1>(&state_); }

 private:
  std::variant<std::monostate, Error> state_;
};

}  // namespace weir
