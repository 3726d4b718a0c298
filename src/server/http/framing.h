#pragma once

#include <string>
#include <string_view>

#include "render/http_response.h"
#include "server/http/handler.h"
#include "weir/clock.h"

namespace weir::server::http {

// How one answer goes onto the wire.
struct Framing {
  bool http11 = true;
  bool keep_alive = true;
  bool head = false;  // the answer to HEAD: lengths, but no body
};

// The value of Date, made at most once a second.
class HttpDate {
 public:
  std::string_view at(Instant now);

 private:
  Instant second_{};
  std::string text_;
};

// Appends whole responses to a buffer.
class ResponseWriter final : public Responder {
 public:
  ResponseWriter(std::string& out, const Framing& framing, std::string_view date)
      : out_(out), framing_(framing), date_(date) {}

  void decision(const Decision& decision) override;
  void problem(int status, std::string_view detail, std::string_view lines) override;
  void body(int status, std::string_view content_type, std::string_view body,
            std::string_view lines) override;

 private:
  render::HttpResponse options(std::string_view lines) const;

  std::string& out_;
  const Framing framing_;
  std::string_view date_;
};

}  // namespace weir::server::http
