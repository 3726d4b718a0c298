#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "policy/http_view.h"
#include "policy/path.h"
#include "policy/store_url.h"

// What a client can write into a request line, headers and addresses; and store URLs.

namespace {

using weir::policy::HttpView;

// Takes what stands before the next line end.
std::string_view line_of(std::string_view& rest) {
  const std::size_t end = rest.find('\n');
  const std::string_view line = rest.substr(0, end);
  rest = end == rest.npos ? std::string_view{} : rest.substr(end + 1);
  return line;
}

void check_path(std::string_view path) {
  std::array<char, weir::policy::kMaxPathBytes> first;
  std::array<char, weir::policy::kMaxPathBytes> second;
  const auto once = weir::policy::normalise_path(path, first);
  if (!once) return;
  const auto twice = weir::policy::normalise_path(*once, second);
  if (!twice || *twice != *once) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const weir::policy::Model model = [] {
    weir::policy::Model out;
    out.trusted_proxies = {weir::policy::parse_cidr("10.0.0.0/8").value()};
    return out;
  }();
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  const std::string_view method = line_of(rest);
  const std::string_view target = line_of(rest);
  std::vector<weir::Descriptor> headers = {{"Cookie", line_of(rest)},
                                           {"X-Forwarded-For", line_of(rest)}};
  while (!rest.empty()) {
    const std::string_view line = line_of(rest);
    const std::size_t colon = line.find(':');
    headers.push_back(
        {line.substr(0, colon), colon == line.npos ? std::string_view{} : line.substr(colon + 1)});
  }
  check_path(target);
  (void)weir::policy::parse_store_url(target);
  (void)weir::policy::redacted(target);
  const auto view = std::make_unique<HttpView>();
  const weir::HttpRequest request{
      .method = method, .target = target, .peer = "10.0.0.1", .headers = headers};
  if (view->take(request, model) != HttpView::State::ready) return 0;
  weir::policy::Problem problem;
  for (const char* name : {"ip", "path", "method", "header:a", "query:a", "cookie:a"})
    (void)view->value(*weir::policy::parse_source(name, {}, problem));
  return 0;
}
