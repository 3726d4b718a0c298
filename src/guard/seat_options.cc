#include "guard/seat_options.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/hex.h"
#include "base/key_digest.h"

namespace weir::guard {
namespace {

std::string host_name() {
  char name[256] = {};
  if (::gethostname(name, sizeof(name) - 1) != 0 || name[0] == '\0') return "localhost";
  return name;
}

std::string whole_path(const std::string& path) {
  std::error_code fault;
  const auto absolute = std::filesystem::absolute(path, fault);
  return fault ? path : absolute.lexically_normal().string();
}

bool acts_bounded(const policy::Route& route) {
  return route.when_store_fails == FailurePolicy::bounded ||
         route.when_store_fails == FailurePolicy::settle;
}

bool parts_matter(const policy::Model& model) {
  for (const policy::Domain& domain : model.domains) {
    for (const policy::DomainScope& scope : domain.scopes) {
      if (acts_bounded(scope.route)) return true;
    }
  }
  return std::any_of(model.routes.begin(), model.routes.end(), acts_bounded);
}

}  // namespace

std::string worker_name(const std::string& host, const std::string& state, std::uint64_t random) {
  const std::string whole = host + ":" + (state.empty() ? hex(random) : whole_path(state));
  const bool good =
      whole.size() <= policy::kMaxWorkerName &&
      std::all_of(whole.begin(), whole.end(), [](char c) { return c > ' ' && c < 0x7f; });
  if (good) return whole;
  static const KeyHasher hasher(KeyHasher::Secret{'w', 'e', 'i', 'r', ' ', 'n', 'a', 'm', 'e'});
  return "worker:" + hex(hasher(whole).lo);
}

FleetSeat::Options seat_options(const policy::Model& model, FleetRole role, std::uint64_t random) {
  const policy::StoreSpec::Workers& workers = model.store.workers;
  return {
      .role = role,
      .name = workers.name.empty() ? worker_name(host_name(), workers.state, random) : workers.name,
      .name_lasts = !workers.name.empty() || !workers.state.empty(),
      .writes = !workers.state.empty(),
      .process = random,
      .of = workers.of,
      .index = workers.index,
      .matters = parts_matter(model)};
}

}  // namespace weir::guard
