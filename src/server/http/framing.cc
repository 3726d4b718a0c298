#include "server/http/framing.h"

#include <chrono>

namespace weir::server::http {

void Responder::method_not_allowed(std::string_view allowed) {
  problem(405, "This path does not answer that method; Allow says which it does.",
          "Allow: " + std::string(allowed) + "\r\n");
}

std::string_view HttpDate::at(Instant now) {
  const auto second = std::chrono::floor<std::chrono::seconds>(now);
  if (second != second_ || text_.empty()) {
    second_ = second;
    text_.clear();
    render::append_http_date(text_, second);
  }
  return text_;
}

render::HttpResponse ResponseWriter::options(std::string_view lines) const {
  using Connection = render::HttpResponse::Connection;
  const Connection open = framing_.http11 ? Connection::implied : Connection::keep_alive;
  return {.connection = framing_.keep_alive ? open : Connection::close,
          .head = framing_.head,
          .date = date_,
          .lines = lines};
}

void ResponseWriter::decision(const Decision& decision) {
  render::append_http_response(out_, decision, options({}));
}

void ResponseWriter::problem(int status, std::string_view detail, std::string_view lines) {
  render::append_http_problem(out_, status, detail, options(lines));
}

void ResponseWriter::body(int status, std::string_view content_type, std::string_view body,
                          std::string_view lines) {
  render::append_http_body(out_, status, content_type, body, options(lines));
}

}  // namespace weir::server::http
