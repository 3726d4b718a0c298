#pragma once

#include <string>
#include <string_view>

#include "weir/clock.h"
#include "weir/decision.h"

namespace weir::render {

struct HttpResponse {
  enum class Connection : std::uint8_t {
    implied,     // HTTP/1.1 and it stays open: nothing is said
    keep_alive,  // HTTP/1.0 and it stays open
    close,
  };
  Connection connection = Connection::implied;
  bool head = false;         // answers HEAD: all header lines, no body
  std::string_view date{};   // value of Date, see append_http_date(); empty: left out
  std::string_view lines{};  // further header lines, each "Name: value\r\n", none of those below
};

// Whole HTTP/1.1 responses, appended to a buffer that the door uses again and again: status line,
// Content-Type, Content-Length, Date, Connection and Cache-Control: no-store, each once.
//
// Cost:        no allocation once the buffer has grown.

// The answer to a check: 200 with the decision's JSON, or its status with a problem; with the
// header lines of append_headers().
void append_http_response(std::string& out, const Decision& decision,
                          const HttpResponse& response = {});
// A request that never became a check. `detail` is ours, not a piece of the request.
void append_http_problem(std::string& out, int status, std::string_view detail,
                         const HttpResponse& response = {});
// Anything else, such as the pages of the admin door.
void append_http_body(std::string& out, int status, std::string_view content_type,
                      std::string_view body, const HttpResponse& response = {});

// "Sun, 06 Nov 1994 08:49:37 GMT" (RFC 9110, IMF-fixdate).
void append_http_date(std::string& out, Instant now);

}  // namespace weir::render
