#include "cli/open_policy.h"

namespace weir::cli {
namespace {

// The first fault, and where to see the others.
std::string with_way_out(std::string message, const std::string& path) {
  while (message.ends_with('\n')) message.pop_back();
  const std::size_t end = message.find('\n');
  if (end == std::string::npos) return message;
  return message.substr(0, end) + " (there is more: weir lint " + path + ")";
}

}  // namespace

std::optional<std::string> store_override(const Environment& environment,
                                          const std::string& given) {
  if (!given.empty()) return given;
  auto variable = environment.variable("WEIR_STORE");
  if (variable && variable->empty()) variable.reset();
  return variable;
}

std::optional<Policy> on_its_store(Environment& environment, Policy policy,
                                   const std::string& store, ExitCode& code) {
  const auto url = store_override(environment, store);
  if (!url) return policy;
  Result<Policy> moved = policy.with_store(*url);
  if (!moved) {
    code = fail(environment, ExitCode::usage, moved.error().message);
    return std::nullopt;
  }
  return *moved;
}

std::optional<Policy> open_policy(Environment& environment, const std::string& path,
                                  const std::string& store, ExitCode& code) {
  Result<Policy> policy = Policy::load(path);
  if (!policy) {
    code = fail(environment, ExitCode::usage, with_way_out(policy.error().message, path));
    return std::nullopt;
  }
  return on_its_store(environment, *std::move(policy), store, code);
}

}  // namespace weir::cli
