#include "cli/open_policy.h"

#include "policy/store_url.h"

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

std::optional<StoreOverride> store_override(const Environment& environment,
                                            const std::string& given) {
  if (!given.empty()) return StoreOverride{given, "--store"};
  auto variable = environment.variable("WEIR_STORE");
  if (!variable || variable->empty()) return std::nullopt;
  return StoreOverride{*std::move(variable), "WEIR_STORE"};
}

std::optional<std::string> fault_of(const StoreOverride& store) {
  const auto parsed = policy::parse_store_url(store.url);
  if (parsed) return std::nullopt;
  return store.from + ": the store '" + policy::redacted(store.url) + "' " +
         parsed.error().message + "; allowed: " + std::string(policy::kStoreUrlForms);
}

std::optional<Policy> on_its_store(Environment& environment, Policy policy,
                                   const std::string& store, ExitCode& code) {
  const auto other = store_override(environment, store);
  if (!other) return policy;
  if (const auto fault = fault_of(*other)) {
    code = fail(environment, ExitCode::usage, *fault);
    return std::nullopt;
  }
  Result<Policy> moved = policy.with_store(other->url);
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
