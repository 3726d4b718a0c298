#include "policy/load.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <optional>
#include <unordered_map>

#include "policy/envoy/counter_name.h"
#include "policy/envoy/read_domain.h"
#include "policy/fault_list.h"
#include "policy/match.h"
#include "policy/read_policy.h"
#include "policy/yaml.h"
#include "weir/decision.h"

namespace weir::policy {
namespace {

namespace fs = std::filesystem;

std::optional<std::string> read_file(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  std::string out;
  std::array<char, 64 * 1024> block;
  while (file.read(block.data(), block.size()) || file.gcount() > 0) {
    out.append(block.data(), static_cast<std::size_t>(file.gcount()));
    if (out.size() > kMaxFileBytes) return out;  // parsing says that this is too much
  }
  if (!file.is_open() || file.bad()) return std::nullopt;
  return out;
}

Fault whole_file(const std::string& path, std::string problem, std::string allowed) {
  return Fault{.file = path, .problem = std::move(problem), .allowed = std::move(allowed)};
}

// The files of a directory that are read, by name.
std::vector<std::string> yaml_files(const std::string& path, std::error_code& error) {
  std::vector<std::string> out;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    const std::string ending = it->path().extension().string();
    std::error_code ignored;
    if (name.starts_with('.') || (ending != ".yaml" && ending != ".yml")) continue;
    if (it->is_directory(ignored)) continue;
    out.push_back(it->path().string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

// The native policy of what a load reads. Nothing that can be read only once is opened again.
struct NativeFile {
  std::string path;
  YamlDocument document;
};

std::optional<NativeFile> native_file(const std::string& path) {
  std::error_code error;
  std::vector<std::string> files{path};
  if (fs::is_directory(path, error)) files = yaml_files(path, error);
  for (const std::string& file : files) {
    if (!fs::is_regular_file(file, error)) continue;
    const auto text = read_file(file);
    if (!text || domain_of(*text)) continue;
    FaultList ignored(file);
    if (auto document = read_yaml(*text, ignored)) return NativeFile{file, *std::move(document)};
  }
  return std::nullopt;
}

// The node of "store.breaker.failures", or the nearest around it; absent where there is no `store`.
const YamlNode* nearest_node(const YamlNode* root, std::string_view field) {
  const YamlNode* found = nullptr;
  const YamlNode* at = root;
  while (at != nullptr && at->is_map() && !field.empty()) {
    const std::size_t dot = std::min(field.find('.'), field.size());
    at = at->find(field.substr(0, dot));
    if (at != nullptr) found = at;
    field.remove_prefix(std::min(dot + 1, field.size()));
  }
  return found;
}

// What stands before the first ": " is the field, where it is one word.
Fault without_place(const std::string& file, std::string_view message) {
  Fault fault{.file = file, .problem = std::string(message)};
  const std::size_t colon = message.find(": ");
  if (colon == message.npos || message.find(' ') < colon) return fault;
  fault.field = message.substr(0, colon);
  fault.problem = message.substr(colon + 2);
  return fault;
}

// Files of one load, read into one model.
class Loader {
 public:
  explicit Loader(bool merge_domains) : merge_domains_(merge_domains) {}

  void read_file_of_domain(const std::string& path) {
    const auto text = read_file(path);
    if (text)
      add_domain(*text, path);
    else
      faults_.push_back(whole_file(path, "cannot be read", "a file"));
  }

  void read_directory(const std::string& path, Model* native) {
    for (const std::string& file : files_of(path)) {
      const auto text = read_file(file);
      if (!text)
        faults_.push_back(whole_file(file, "cannot be read", "a file"));
      else if (native == nullptr || domain_of(*text))
        add_domain(*text, file);
      else
        add_native(*text, file, *native);
    }
  }

  void add_domain(const std::string& text, const std::string& path) {
    FaultList faults(path);
    const std::string name = domain_of(text).value_or("");
    const auto [known, fresh] = by_name_.emplace(name, domains_.size());
    if (!fresh && !merge_domains_ && !name.empty()) {
      faults.add(0, 0, "domain", name,
                 "stands in " + domains_[known->second].files.front() + " too",
                 "one file a domain, or rls: {merge_domains: true}");
    } else if (fresh || name.empty()) {
      if (!fresh) known->second = domains_.size();
      domains_.emplace_back();
    }
    Domain scratch;
    const bool keep = !faults.failed();
    read_domain(text, faults, keep ? domains_[known->second] : scratch);
    keep_faults(faults);
    sums_ += sha256(text);
    files_.push_back(path);
  }

  void finish(Model& model) {
    for (const Domain& domain : domains_) {
      FaultList faults(domain.files.empty() ? "" : domain.files.front());
      check_domain(domain, faults);
      if (model.rls.envoyproxy_prefix) check_kept_by_envoyproxy(domain, faults);
      keep_faults(faults);
    }
    model.domains = std::move(domains_);
    model.files.insert(model.files.end(), files_.begin(), files_.end());
    if (!sums_.empty()) model.text_sha256 = sha256(model.text_sha256 + sums_);
  }

  void keep_faults(const FaultList& faults) {
    const auto sorted = faults.sorted();
    faults_.insert(faults_.end(), sorted.begin(), sorted.end());
  }
  std::vector<Fault>& faults() { return faults_; }

 private:
  std::vector<std::string> files_of(const std::string& path) {
    std::error_code error;
    std::vector<std::string> out = yaml_files(path, error);
    if (error) faults_.push_back(whole_file(path, "cannot be read", "a directory"));
    if (out.empty() && !error)
      faults_.push_back(whole_file(path, "holds no file that ends in .yaml or .yml", ""));
    if (out.size() > kMaxFiles) {
      faults_.push_back(whole_file(path, "holds " + std::to_string(out.size()) + " files",
                                   "at most " + std::to_string(kMaxFiles)));
      out.clear();
    }
    return out;
  }

  void add_native(const std::string& text, const std::string& path, Model& native) {
    FaultList faults(path);
    auto model = read_policy(text, faults);
    if (!native.files.empty())
      faults.add(0, 0, "", "", "is a native policy, as " + native.files.front() + " is",
                 "one native policy in a directory");
    if (model && !model->rls.config.empty())
      faults.add(0, 0, "rls.config", model->rls.config,
                 "names other files, but the whole directory is read", "no config");
    if (model) merge_domains_ = merge_domains_ || model->rls.merge_domains;
    keep_faults(faults);
    if (model) native = std::move(*model);
  }

  bool merge_domains_;
  std::vector<Domain> domains_;
  std::unordered_map<std::string, std::size_t> by_name_;
  std::vector<std::string> files_;
  std::string sums_;
  std::vector<Fault> faults_;
};

bool failed(const std::vector<Fault>& faults) {
  return std::any_of(faults.begin(), faults.end(),
                     [](const Fault& fault) { return !fault.warning; });
}

// Draws the lines that all files together make: domains that are decided from outside, the index.
Loaded finished(std::shared_ptr<Model> model, Loader& loader) {
  loader.finish(*model);
  Loaded out{.model = nullptr, .draft = nullptr, .faults = std::move(loader.faults())};
  if (failed(out.faults)) {
    out.draft = std::move(model);
    return out;
  }
  if (model->rls.protects) decide_domains(*model, *model->rls.protects);
  model->matcher = Matcher::build(*model);
  out.model = std::move(model);
  return out;
}

std::shared_ptr<Model> empty_model() {
  auto model = std::make_shared<Model>();
  model->header_profiles = kHeadersDraft10;
  return model;
}

Loaded load_directory(const std::string& path) {
  auto model = empty_model();
  Loader loader(false);
  loader.read_directory(path, model.get());
  return finished(std::move(model), loader);
}

}  // namespace

Loaded load_text(std::string_view text, const std::string& name) {
  FaultList faults(name);
  Loader loader(false);
  if (domain_of(text)) {
    loader.add_domain(std::string(text), name);
    return finished(empty_model(), loader);
  }
  auto model = read_policy(text, faults);
  if (model && !model->rls.config.empty())
    faults.add(0, 0, "rls.config", model->rls.config, "names files beside a text without a place",
               "a policy that is loaded from a file");
  loader.keep_faults(faults);
  return finished(model ? std::move(model) : empty_model(), loader);
}

Loaded load_path(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return load_directory(path);
  const auto text = read_file(path);
  if (!text)
    return {
        .faults = {whole_file(path, "cannot be read", "a policy file that is there and readable")},
        .unreadable = true};
  if (domain_of(*text)) return load_text(*text, path);
  FaultList faults(path);
  auto model = read_policy(*text, faults);
  Loader loader(model && model->rls.merge_domains);
  loader.keep_faults(faults);
  if (model && !model->rls.config.empty()) {
    const std::string config = beside(path, model->rls.config);
    if (fs::is_directory(config, ignored))
      loader.read_directory(config, nullptr);
    else
      loader.read_file_of_domain(config);
  }
  return finished(model ? std::move(model) : empty_model(), loader);
}

std::vector<Fault> faults_of(const std::string& path, const Error& error) {
  std::vector<Fault> out;
  const std::optional<NativeFile> native = native_file(path);
  std::string_view rest = error.message;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    Fault fault = without_place(native ? native->path : path, rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const YamlNode* at = native ? nearest_node(native->document.root, fault.field) : nullptr;
    if (at != nullptr) {
      fault.line = at->line;
      fault.column = at->column;
    }
    out.push_back(std::move(fault));
  }
  return out;
}

std::string beside(const std::string& path, const std::string& named) {
  if (named.empty()) return {};
  return (fs::path(path).parent_path() / named).string();
}

std::vector<std::string> undecided_domains(const Model& model) {
  std::vector<std::string> out;
  if (model.rls.protects) return out;
  for (const Domain& domain : model.domains)
    for (const DomainScope& scope : domain.scopes)
      if (!scope.decided && !scope.route.rules.empty())
        out.push_back(domain.name + (scope.path.empty() ? "" : ", below " + scope.path));
  return out;
}

void decide_domains(Model& model, Protects protects) {
  model.rls.protects = protects;
  for (Domain& domain : model.domains)
    for (DomainScope& scope : domain.scopes) {
      if (scope.decided) continue;
      scope.route.protects = protects;
      scope.route.when_store_fails = failure_policy_of(protects);
    }
}

}  // namespace weir::policy
