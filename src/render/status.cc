#include "render/status.h"

#include "base/http_status.h"

namespace weir::render {

int http_status(const Decision& decision) noexcept {
  return weir::http_status(decision.verdict, decision.reason);
}

std::string_view status_phrase(int status) noexcept {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 411:
      return "Length Required";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 422:
      return "Unprocessable Content";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "";
  }
}

bool degraded(const Decision& decision) noexcept {
  switch (decision.reason) {
    case Reason::unknown_route:
    case Reason::unmatched_request:
    case Reason::missing_value:
    case Reason::invalid_request:
    case Reason::key_reused:
    case Reason::no_limit:
      return false;
    default:
      return decision.rung != Rung::store;
  }
}

bool remarkable(const Decision& decision) noexcept {
  return decision.verdict == Verdict::refused || degraded(decision);
}

}  // namespace weir::render
