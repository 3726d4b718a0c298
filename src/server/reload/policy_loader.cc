#include "server/reload/policy_loader.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "policy/load.h"
#include "policy/model.h"

namespace weir::server {

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
    return fail(taken.error(), why, {policy::fault_of(origin_.path, taken.error())});
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
  // Said once, however often it is tried again by itself.
  const bool said = why == Why::change && fault_ && fault_->message == error.message;
  fault_ = LoadFault{clock_.now(), error.message, std::move(faults)};
  std::erase_if(fault_->faults, [](const Fault& each) { return each.warning; });
  if (said) return error;
  metrics_.count_policy_load_error();
  if (fault_->faults.empty() || fault_->faults.front().line == 0) {  // of no place in the file
    log_.write(render::LogLevel::error, "policy_rejected",
               {{"why", to_string(why)},
                {"file", origin_.path},
                {"problem", error.message},
                {"generation_kept", guard_.generation()}});
    return error;
  }
  const Fault& first = fault_->faults.front();
  log_.write(render::LogLevel::error, "policy_rejected",
             {{"why", to_string(why)},
              {"file", first.file},
              {"line", static_cast<std::uint64_t>(std::max(first.line, 0))},
              {"field", first.field},
              {"problem", first.problem},
              {"faults", static_cast<std::uint64_t>(fault_->faults.size())},
              {"generation_kept", guard_.generation()}});
  return error;
}

}  // namespace weir::server
