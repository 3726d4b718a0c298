#include "server/reload/policy_loader.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "policy/fault_list.h"
#include "policy/load.h"
#include "policy/model.h"

namespace weir::server {
namespace {

// Of one load; its line says how many there are.
constexpr std::size_t kMaxFaultsInLog = 20;

// What a fault does not have is left out.
void append(std::vector<render::LogField>& fields, const Fault& fault) {
  const auto number = [&fields](std::string_view name, int value) {
    if (value > 0) fields.push_back({name, static_cast<std::uint64_t>(value)});
  };
  const auto text = [&fields](std::string_view name, const std::string& value) {
    if (!value.empty()) fields.push_back({name, std::string_view(value)});
  };
  text("file", fault.file);
  number("line", fault.line);
  number("column", fault.column);
  text("field", fault.field);
  text("value", fault.value);
  text("problem", fault.problem);
  text("allowed", fault.allowed);
}

}  // namespace

Result<Policy> PolicyOrigin::load() const {
  Result<Policy> policy = Policy::load(path);
  if (policy && store_url) policy = policy->with_store(*store_url);
  if (policy && protects) policy = policy->with_protects(*protects);
  if (policy && !(store_prefix.empty() && state_folder.empty() && journal_folder.empty())) {
    auto model = std::make_shared<policy::Model>(policy->model());
    if (!store_prefix.empty()) model->store.prefix = store_prefix;
    if (!state_folder.empty()) model->store.workers.state = state_folder;
    if (!journal_folder.empty()) {
      if (!model->journal) model->journal.emplace();
      model->journal->folder = journal_folder;
      model->journal->ledger = "sqlite:" + journal_folder + "/ledger.db";
    }
    policy = Policy(std::move(model));
  }
  return policy;
}

std::string_view to_string(PolicyLoader::Why why) {
  switch (why) {
    case PolicyLoader::Why::change:
      return "change";
    case PolicyLoader::Why::signal:
      return "signal";
    case PolicyLoader::Why::request:
      return "request";
  }
  return "";
}

bool LoadFault::may_pass() const noexcept {
  return std::all_of(faults.begin(), faults.end(),
                     [](const Fault& fault) { return fault.line == 0; });
}

PolicyLoader::PolicyLoader(PolicyOrigin origin, Guard& guard, render::Metrics& metrics,
                           render::Log& log, Clock& clock)
    : origin_(std::move(origin)),
      guard_(guard),
      metrics_(metrics),
      log_(log),
      clock_(clock),
      loaded_at_(clock.now()) {}

Result<void> PolicyLoader::load(Why why) {
  // A pipe holds its contents once, and opening one waits for a writer: meanwhile no signal and no
  // admin request would be answered.
  std::error_code ignored;
  const auto kind = std::filesystem::status(origin_.path, ignored).type();
  if (kind == std::filesystem::file_type::fifo || kind == std::filesystem::file_type::socket ||
      kind == std::filesystem::file_type::character) {
    const Fault fault{.file = origin_.path,
                      .problem = "is not a regular file",
                      .allowed = "a policy file that can be read again"};
    return fail({ErrorCode::invalid_argument, fault.text()}, why, {fault});
  }
  Result<Policy> policy = origin_.load();
  if (!policy) return fail(std::move(policy).error(), why, Policy::lint(origin_.path));
  const bool same = policy->model().text_sha256 == guard_.policy().model().text_sha256;
  if (why == Why::change && same && !fault_) return {};
  const std::string sha256 = policy->model().text_sha256;
  const std::uint64_t routes = policy->model().routes.size();
  const std::uint64_t domains = policy->model().domains.size();
  if (Result<void> taken = guard_.reload(std::move(*policy)); !taken) {
    std::vector<Fault> faults = policy::faults_of(origin_.path, taken.error());
    Error placed{taken.error().code, policy::text_of(faults)};
    return fail(std::move(placed), why, std::move(faults));
  }
  fault_.reset();
  loaded_at_ = clock_.now();
  log_.write(render::LogLevel::info, "policy_loaded",
             {{"why", to_string(why)},
              {"file", origin_.path},
              {"generation", guard_.generation()},
              {"sha256", sha256},
              {"routes", routes},
              {"domains", domains}});
  if (on_loaded_) on_loaded_();
  return {};
}

Result<void> PolicyLoader::fail(Error error, Why why, std::vector<Fault> faults) {
  // Said once, however often it is tried again by itself; all of it once, however it is tried
  // again.
  const bool same = fault_ && fault_->message == error.message;
  fault_ = LoadFault{clock_.now(), error.message, std::move(faults)};
  std::erase_if(fault_->faults, [](const Fault& each) { return each.warning; });
  if (same && why == Why::change) return error;
  metrics_.count_policy_load_error();
  if (fault_->faults.empty()) {
    log_.write(render::LogLevel::error, "policy_rejected",
               {{"why", to_string(why)},
                {"file", origin_.path},
                {"problem", error.message},
                {"generation_kept", guard_.generation()}});
    return error;
  }
  tell(why, same);
  return error;
}

void PolicyLoader::tell(Why why, bool known) {
  const std::vector<Fault>& faults = fault_->faults;
  std::vector<render::LogField> fields{{"why", to_string(why)}};
  append(fields, faults.front());
  fields.push_back({"faults", std::uint64_t{faults.size()}});
  fields.push_back({"generation_kept", guard_.generation()});
  if (!log_.write(render::LogLevel::error, "policy_rejected", fields) || known) return;
  const std::size_t most = std::min(faults.size(), kMaxFaultsInLog);
  for (std::size_t i = 1; i < most; ++i) {
    fields.clear();
    append(fields, faults[i]);
    log_.write_more(render::LogLevel::error, "policy_fault", fields);
  }
  if (most == faults.size()) return;
  const std::string more =
      "and " + std::to_string(faults.size() - most) + " more: /policy and weir lint name them";
  fields.assign({{"problem", more}});
  log_.write_more(render::LogLevel::error, "policy_fault", fields);
}

}  // namespace weir::server
