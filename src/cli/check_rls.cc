#include "cli/check_rls.h"

#include <optional>

#include "cli/descriptor_words.h"
#include "cli/number.h"
#include "drill/load/rls_ask.h"
#include "drill/load/rls_load.h"

namespace weir::cli {
namespace {

constexpr Nanos kPatience{std::chrono::seconds(5)};
constexpr std::uint64_t kMostHits = 0xffff'ffff;

ExitCode say(Environment& environment, const CheckCommand& command, const drill::OneCall& call,
             const drill::DescriptorTexts& descriptors) {
  if (call.grpc_status != 0) {
    return fail(environment, ExitCode::undecided,
                command.rls + ": the service answered with gRPC status " +
                    std::to_string(call.grpc_status));
  }
  const std::string said = command.json ? drill::rls_response_json(call.response)
                                        : drill::rls_response_text(call.response, descriptors);
  if (said.empty()) {
    return fail(environment, ExitCode::undecided,
                command.rls + ": the answer is no RateLimitResponse");
  }
  environment.out << said << (command.json ? "\n" : "");
  return drill::overall_code_of(call.response) == drill::kOverLimit ? ExitCode::answered_no
                                                                    : ExitCode::as_asked;
}

}  // namespace

ExitCode check_rls(Environment& environment, const CheckCommand& command) {
  const auto hits = parse_number(command.cost);
  if (!hits || *hits == 0 || *hits > kMostHits) {
    return fail(environment, ExitCode::usage,
                "--cost is '" + command.cost + "'; a rate limit service takes 1 to " +
                    std::to_string(kMostHits));
  }
  if (command.times != "1" || !command.store.empty()) {
    return fail(environment, ExitCode::usage, "--times and --store do not go with --rls");
  }
  std::vector<std::string> words = command.values;
  if (!command.route.empty()) words.insert(words.begin(), command.route);
  drill::DescriptorTexts descriptors;
  for (const std::string& word : words) {
    auto entries = read_descriptor(word);
    if (!entries) {
      return fail(
          environment, ExitCode::usage,
          "'" + word + "' is no descriptor; it must be KEY=VALUE, with commas between several");
    }
    descriptors.push_back(std::move(*entries));
  }
  const auto call = drill::call_once(
      command.rls,
      drill::rls_request(command.policy, descriptors, static_cast<std::uint32_t>(*hits)),
      kPatience);
  if (!call) {
    const bool wrong = call.error().code == ErrorCode::invalid_argument;
    return fail(environment, wrong ? ExitCode::usage : ExitCode::undecided, call.error().message);
  }
  return say(environment, command, *call, descriptors);
}

}  // namespace weir::cli
