#include "server/admin/explain_page.h"

#include <charconv>

#include "ladder/explain.h"
#include "policy/duration.h"
#include "server/http/query.h"

namespace weir::server {
namespace {

constexpr std::uint32_t kMaxWorkers = 1'000'000;

struct Question {
  ladder::ExplainOptions options;
  std::string route;  // what options.route views
  bool json = false;
};

bool read_workers(const std::string& text, std::uint32_t& workers) {
  const char* const end = text.data() + text.size();
  const auto [stop, fault] = std::from_chars(text.data(), end, workers);
  return fault == std::errc{} && stop == end && workers >= 1 && workers <= kMaxWorkers;
}

// Returns what is wrong, if anything.
std::string_view read(const http::Request& request, Question& question) {
  question.json = request.field("Accept").find("application/json") != std::string_view::npos;
  const auto query = http::parse_query(request.query());
  if (!query) return "The query holds an escape that is none.";
  for (const auto& [name, value] : *query) {
    if (name == "route") {
      question.route = value;
    } else if (name == "workers") {
      if (!read_workers(value, question.options.workers)) {
        return "workers must be a whole number from 1 to 1000000.";
      }
    } else if (name == "outage") {
      question.options.outage = policy::parse_duration(value);
      if (!question.options.outage || *question.options.outage <= Nanos::zero() ||
          *question.options.outage > ladder::kLongestOutage) {
        return "outage must be a length of time above 0 and at most 365d, with its unit: 11s, 2m.";
      }
    } else if (name == "offered") {
      const auto offered = ladder::parse_offered(value);
      if (!offered) return "offered must be as in 30 clients at 200 per second.";
      question.options.offered = *offered;
    } else if (name == "format") {
      if (value != "text" && value != "json") return "format must be text or json.";
      question.json = value == "json";
    } else {
      return "A parameter is unknown; allowed: route, workers, outage, offered, format.";
    }
  }
  if (question.options.offered && !question.options.outage) return "offered goes with outage.";
  return {};
}

}  // namespace

void answer_explain(const http::Request& request, const Policy& policy, http::Exchange& exchange) {
  Question question;
  if (const std::string_view wrong = read(request, question); !wrong.empty()) {
    return exchange.problem(400, wrong);
  }
  question.options.route = question.route;
  const auto explained = ladder::explain(policy.model(), question.options);
  if (!explained) return exchange.problem(404, "The policy has no route of that name.");
  if (question.json) {
    return exchange.body(200, "application/json", ladder::explain_json(*explained));
  }
  exchange.body(200, "text/plain; charset=utf-8", ladder::explain_text(*explained));
}

}  // namespace weir::server
