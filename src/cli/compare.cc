#include "cli/compare.h"

#include <fstream>
#include <optional>
#include <utility>

#include "cli/answer_difference.h"
#include "cli/descriptor_words.h"
#include "cli/number.h"
#include "cli/open_policy.h"
#include "drill/load/rls_load.h"
#include "policy/model.h"
#include "render/text.h"

namespace weir::cli {
namespace {

constexpr Nanos kPatience{std::chrono::seconds(5)};
constexpr const char* kHere = "127.0.0.1:8081";
constexpr std::size_t kMostRequests = 10'000;
constexpr std::uint64_t kMostHits = 0xffff'ffff;
// A window may end between two asks that only look: then they are asked again.
constexpr int kLooks = 3;
// What stands for any value.
constexpr std::string_view kSample = "weir-compare";

std::string sample_of(const policy::DescriptorLevel& level) {
  if (level.value.empty()) return std::string(kSample);
  std::string value;
  for (const char c : level.value) {
    if (c == '*') {
      value += kSample;
    } else {
      value += c;
    }
  }
  return value;
}

// One request for each limit of each domain.
std::vector<RequestWords> requests_of(const policy::Model& model) {
  std::vector<RequestWords> out;
  for (const policy::Domain& domain : model.domains) {
    for (const policy::DescriptorLimit& limit : domain.limits) {
      drill::DescriptorTexts::value_type entries;
      for (const policy::DescriptorLevel& level : limit.levels) {
        entries.emplace_back(level.key, sample_of(level));
      }
      out.push_back({domain.name, {std::move(entries)}});
    }
  }
  return out;
}

// Adds what a file asks for. Returns what is wrong with it, if anything.
std::optional<std::string> read_file(const std::string& path, std::vector<RequestWords>& out) {
  std::ifstream file(path);
  if (!file) return "--requests: " + path + " cannot be read";
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos || line.starts_with('#')) continue;
    auto request = read_request(line);
    if (!request) {
      return path + ":" + std::to_string(number) +
             ": is no request; it must be DOMAIN KEY=VALUE,KEY=VALUE …";
    }
    out.push_back(std::move(*request));
  }
  return std::nullopt;
}

struct Comparison {
  std::string old_service;
  std::string new_service;
  std::uint64_t hits = 0;
  ComparisonRules rules;
};

// Returns what is wrong with the words, if anything.
std::optional<std::string> read(const CompareCommand& command, Comparison& comparison) {
  if (command.services.empty() || command.services.size() > 2) {
    return "--rls names the old service, and a second --rls the new one; " + std::string(kHere) +
           " where one is given";
  }
  comparison.old_service = command.services.front();
  comparison.new_service = command.services.size() > 1 ? command.services.back() : kHere;
  const auto hits = parse_number(command.hits);
  if (!hits || *hits > kMostHits) {
    return "--hits is '" + command.hits + "'; it must be a whole number from 0 to " +
           std::to_string(kMostHits);
  }
  comparison.hits = *hits;
  if (command.one_budget) {
    if (*hits == 0) return std::string("--one-budget says what --hits take: it goes with them");
    comparison.rules.taken_between = *hits;
  }
  if (command.shadow && !command.one_budget) {
    return std::string("--shadow is about the last units of one budget: it goes with --one-budget");
  }
  comparison.rules.shadow = command.shadow;
  return std::nullopt;
}

// What is asked, in the order in which it is said. Absent: it was said why not.
std::optional<std::vector<RequestWords>> asked(Environment& environment,
                                               const CompareCommand& command, ExitCode& code) {
  std::vector<RequestWords> out;
  const auto wrong = [&](const std::string& message) {
    code = fail(environment, ExitCode::usage, message);
    return std::nullopt;
  };
  for (const std::string& text : command.requests) {
    auto request = read_request(text);
    if (!request) {
      return wrong("--request is '" + text + "'; it must be DOMAIN KEY=VALUE,KEY=VALUE …");
    }
    out.push_back(std::move(*request));
  }
  if (!command.file.empty()) {
    if (const auto fault = read_file(command.file, out)) return wrong(*fault);
  }
  if (!command.policy.empty()) {
    const auto policy = open_policy(environment, command.policy, "memory:", code);
    if (!policy) return std::nullopt;
    for (RequestWords& request : requests_of(policy->model())) out.push_back(std::move(request));
  }
  if (out.empty()) {
    return wrong(
        "nothing is asked: name a policy with domains, or say --request or --requests; see weir "
        "compare --help");
  }
  if (out.size() > kMostRequests) {
    return wrong("there are " + std::to_string(out.size()) + " requests; at most " +
                 std::to_string(kMostRequests) + " are asked, so choose some by --requests");
  }
  return out;
}

std::optional<drill::RlsAnswer> ask(Environment& environment, const std::string& service,
                                    const RequestWords& request, std::uint64_t hits,
                                    ExitCode& code) {
  const auto call = drill::call_once(
      service, drill::rls_request_of_each(request.domain, request.descriptors, hits), kPatience);
  if (!call) {
    const bool wrong = call.error().code == ErrorCode::invalid_argument;
    code = fail(environment, wrong ? ExitCode::usage : ExitCode::undecided, call.error().message);
    return std::nullopt;
  }
  auto answer = call->grpc_status == 0 ? drill::rls_answer(call->response)
                                       : std::optional<drill::RlsAnswer>();
  if (!answer) {
    code = fail(environment, ExitCode::undecided,
                service + ": " +
                    (call->grpc_status == 0 ? std::string("the answer is no RateLimitResponse")
                                            : "the service answered with gRPC status " +
                                                  std::to_string(call->grpc_status)));
  }
  return answer;
}

// Absent: one of them gave no answer, and it was said.
std::optional<std::vector<AnswerDifference>> compare_one(Environment& environment,
                                                         const Comparison& comparison,
                                                         const RequestWords& request,
                                                         ExitCode& code) {
  std::vector<AnswerDifference> found;
  for (int look = 0; look < (comparison.hits == 0 ? kLooks : 1); ++look) {
    const auto old_answer =
        ask(environment, comparison.old_service, request, comparison.hits, code);
    if (!old_answer) return std::nullopt;
    const auto new_answer =
        ask(environment, comparison.new_service, request, comparison.hits, code);
    if (!new_answer) return std::nullopt;
    found = differences(*old_answer, *new_answer, comparison.rules);
    if (found.empty()) break;
  }
  return found;
}

std::string text_of(const RequestWords& request) {
  std::string out = request.domain;
  for (const auto& entries : request.descriptors) out += " " + descriptor_word(entries);
  return out;
}

std::string words(const RequestWords& request, const std::vector<AnswerDifference>& found) {
  std::string out = text_of(request) + "\n";
  for (const AnswerDifference& each : found) {
    out += "  ";
    if (each.descriptor && request.descriptors.size() > 1) {
      out += descriptor_word(request.descriptors[*each.descriptor]) + ": ";
    }
    out += std::string(each.field) + " " + each.old_says + " there, " + each.new_says + " here\n";
  }
  return out;
}

std::string json(const RequestWords& request, const std::vector<AnswerDifference>& found) {
  std::string out = "{\"request\":";
  render::append_json_string(out, text_of(request));
  out += found.empty() ? ",\"same\":true" : ",\"same\":false";
  out += ",\"differences\":[";
  for (const AnswerDifference& each : found) {
    out += &each == found.data() ? "{" : ",{";
    if (each.descriptor) {
      out += "\"descriptor\":";
      render::append_json_string(out, descriptor_word(request.descriptors[*each.descriptor]));
      out += ',';
    }
    out += "\"field\":\"" + std::string(each.field) + "\",\"old\":";
    render::append_json_string(out, each.old_says);
    out += ",\"new\":";
    render::append_json_string(out, each.new_says);
    out += '}';
  }
  return out + "]}\n";
}

}  // namespace

ExitCode compare(Environment& environment, const CompareCommand& command) {
  Comparison comparison;
  if (const auto fault = read(command, comparison)) {
    return fail(environment, ExitCode::usage, *fault);
  }
  ExitCode code = ExitCode::as_asked;
  const auto requests = asked(environment, command, code);
  if (!requests) return code;
  std::size_t differ = 0;
  for (const RequestWords& request : *requests) {
    const auto found = compare_one(environment, comparison, request, code);
    if (!found) return code;
    differ += found->empty() ? 0 : 1;
    if (command.json) {
      environment.out << json(request, *found);
    } else if (!found->empty()) {
      environment.out << words(request, *found);
    }
  }
  if (!command.json) {
    const std::string count = std::to_string(requests->size());
    const char* const what = requests->size() == 1 ? " request" : " requests";
    environment.out << (differ == 0 ? count + what + ", answered alike\n"
                                    : std::to_string(differ) + " of " + count + what +
                                          " answered otherwise\n");
  }
  return differ == 0 ? ExitCode::as_asked : ExitCode::answered_no;
}

}  // namespace weir::cli
