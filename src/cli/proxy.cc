#include "cli/proxy.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>

#include "drill/proxy/api_door.h"
#include "drill/proxy/proxy_api.h"
#include "drill/proxy/proxy_set.h"

namespace weir::cli {
namespace {

constexpr const char* kUsualApi = "127.0.0.1:8474";  // where Toxiproxy's clients look
constexpr const char* kUsualName = "store";

ExitCode fail_with(Environment& environment, const std::string& what, const Error& error) {
  const bool wrong = error.code != ErrorCode::unavailable;
  return fail(environment, wrong ? ExitCode::usage : ExitCode::undecided,
              what + ": " + error.message);
}

void tell(Environment& environment, const drill::ProxySet& proxies, const std::string& api) {
  std::size_t width = 3;
  for (const auto& [name, each] : proxies.all()) width = std::max(width, name.size());
  environment.out << "weir proxy is ready\n";
  for (const auto& [name, each] : proxies.all()) {
    environment.out << "  " << name << std::string(width - name.size() + 2, ' ') << each.listen
                    << " -> " << each.upstream << (each.enabled ? "" : " (disabled)") << '\n';
  }
  environment.out << "  api" << std::string(width - 1, ' ') << "http://" << api << '\n'
                  << std::flush;
}

}  // namespace

ExitCode proxy(Environment& environment, const ProxyCommand& command) {
  if (command.upstream.empty() && !(command.listen.empty() && command.name.empty())) {
    return fail(environment, ExitCode::usage,
                "--upstream is required with --listen and --name; see weir proxy --help");
  }
  drill::ProxySet proxies;
  drill::ProxyApi api(proxies);
  if (!command.config.empty()) {
    std::ifstream file(command.config, std::ios::binary);
    std::ostringstream text;
    if (!file || !(text << file.rdbuf())) {
      return fail(environment, ExitCode::usage, "'" + command.config + "' cannot be read");
    }
    if (auto made = api.populate(text.str()); !made) {
      return fail_with(environment, command.config, made.error());
    }
  }
  if (!command.upstream.empty()) {
    drill::ProxySet::Entry entry;
    entry.name = command.name.empty() ? kUsualName : command.name;
    entry.listen = command.listen.empty() ? "127.0.0.1:0" : command.listen;
    entry.upstream = command.upstream;
    if (auto added = proxies.add(std::move(entry)); !added) {
      return fail_with(environment, "--listen, --upstream", added.error());
    }
  }
  auto door = drill::ApiDoor::open(command.api.empty() ? kUsualApi : command.api, api);
  if (!door) return fail_with(environment, "--api", door.error());
  environment.answers_on_out = false;
  tell(environment, proxies, (*door)->address());
  (void)(*door)->run();
  return ExitCode::as_asked;
}

}  // namespace weir::cli
