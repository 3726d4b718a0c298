#include "render/http_response.h"

#include <charconv>
#include <chrono>
#include <cstdint>

#include "render/decision_json.h"
#include "render/headers.h"
#include "render/problem.h"
#include "render/status.h"
#include "render/text.h"

namespace weir::render {
namespace {

constexpr std::string_view kNoStore = "Cache-Control: no-store\r\n";

void append_status_line(std::string& out, int status) {
  out += "HTTP/1.1 ";
  append_number(out, static_cast<std::uint64_t>(status));
  out += ' ';
  out += status_phrase(status);
  out += "\r\n";
}

// Everything that every response says. Returns where the value of Content-Length goes once the body
// is there.
std::size_t append_head_end(std::string& out, std::string_view content_type,
                            const HttpResponse& response) {
  out += response.lines;
  if (!response.date.empty()) {
    out += "Date: ";
    out += response.date;
    out += "\r\n";
  }
  switch (response.connection) {
    case HttpResponse::Connection::implied:
      break;
    case HttpResponse::Connection::keep_alive:
      out += "Connection: keep-alive\r\n";
      break;
    case HttpResponse::Connection::close:
      out += "Connection: close\r\n";
      break;
  }
  out += "Content-Type: ";
  out += content_type;
  out += "\r\nContent-Length: ";
  const std::size_t length_at = out.size();
  out += "\r\n\r\n";
  return length_at;
}

void finish_body(std::string& out, std::size_t length_at, const HttpResponse& response) {
  constexpr std::size_t kBlankLine = 4;
  const std::size_t body_at = length_at + kBlankLine;
  char digits[20];
  const auto end = std::to_chars(digits, digits + sizeof digits, out.size() - body_at).ptr;
  if (response.head) out.resize(body_at);
  out.insert(length_at, digits, static_cast<std::size_t>(end - digits));
}

void append_two_digits(std::string& out, unsigned value) {
  out += static_cast<char>('0' + value / 10 % 10);
  out += static_cast<char>('0' + value % 10);
}

}  // namespace

void append_http_response(std::string& out, const Decision& decision,
                          const HttpResponse& response) {
  append_status_line(out, http_status(decision));
  append_headers(out, decision);
  if (decision.allowed()) out += kNoStore;  // on a denial append_headers() says it
  const std::size_t length_at =
      append_head_end(out, decision.allowed() ? kJsonContentType : kProblemContentType, response);
  if (decision.allowed()) {
    append_decision_json(out, decision);
  } else {
    append_problem(out, decision);
  }
  finish_body(out, length_at, response);
}

void append_http_problem(std::string& out, int status, std::string_view detail,
                         const HttpResponse& response) {
  append_status_line(out, status);
  out += kNoStore;
  const std::size_t length_at = append_head_end(out, kProblemContentType, response);
  append_problem(out, status, detail);
  finish_body(out, length_at, response);
}

void append_http_body(std::string& out, int status, std::string_view content_type,
                      std::string_view body, const HttpResponse& response) {
  append_status_line(out, status);
  out += kNoStore;
  const std::size_t length_at = append_head_end(out, content_type, response);
  out += body;
  finish_body(out, length_at, response);
}

void append_http_date(std::string& out, Instant now) {
  static constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                            "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const auto day = std::chrono::floor<std::chrono::days>(now);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss time(std::chrono::floor<std::chrono::seconds>(now - day));
  out += kDays[std::chrono::weekday(day).c_encoding()];
  out += ", ";
  append_two_digits(out, static_cast<unsigned>(date.day()));
  out += ' ';
  out += kMonths[static_cast<unsigned>(date.month()) - 1];
  out += ' ';
  const auto year = static_cast<unsigned>(static_cast<int>(date.year()));
  append_two_digits(out, year / 100);
  append_two_digits(out, year % 100);
  out += ' ';
  append_two_digits(out, static_cast<unsigned>(time.hours().count()));
  out += ':';
  append_two_digits(out, static_cast<unsigned>(time.minutes().count()));
  out += ':';
  append_two_digits(out, static_cast<unsigned>(time.seconds().count()));
  out += " GMT";
}

}  // namespace weir::render
