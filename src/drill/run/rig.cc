#include "drill/run/rig.h"

#include <signal.h>
#include <unistd.h>

#include <cctype>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <thread>
#include <vector>

#include "base/hex.h"
#include "base/random.h"
#include "drill/run/exchange.h"

namespace weir::drill {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

constexpr Nanos kStartPatience = 15s;

// The port of a line of the ready text, as "  http   http://127.0.0.1:8080"; 0 without one.
std::uint16_t port_of(const std::string& text, const std::string& door) {
  const std::size_t line = text.find("\n  " + door + " ");
  if (line == std::string::npos) return 0;
  const std::size_t end = text.find('\n', line + 1);
  const std::size_t colon = text.rfind(':', end);
  std::uint16_t port = 0;
  if (end != std::string::npos && colon > line) {
    std::from_chars(text.data() + colon + 1, text.data() + end, port);
  }
  return port;
}

std::string url_encoded(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      out += c;
    } else {
      out += '%' + hex(static_cast<unsigned char>(c)).substr(14);
    }
  }
  return out;
}

// Nobody else's: 64 random bits.
std::string key_prefix() {
  return "weir-drill-" + hex(random_number());
}

std::string last_lines(const std::string& text) {
  constexpr std::size_t kMost = 600;
  return text.size() <= kMost ? text : "…" + text.substr(text.size() - kMost);
}

}  // namespace

Result<std::unique_ptr<Rig>> Rig::start(const Options& options) {
  std::unique_ptr<Rig> rig(new Rig(options));
  if (auto made = rig->make_folder(); !made) return made.error();
  if (auto started = rig->start_store(); !started) return started.error();
  if (auto started = rig->start_weir(); !started) return started.error();
  return rig;
}

Rig::~Rig() {
  weir_.reset();
  cluster_.reset();
  proxy_.reset();
  redis_.reset();
  std::error_code ignored;
  if (!folder_.empty()) fs::remove_all(folder_, ignored);
}

Result<void> Rig::make_folder() {
  std::error_code fault;
  std::string name = (fs::temp_directory_path(fault) / "weir-drill-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) {
    return Error{ErrorCode::unavailable, name + ": no folder can be made there"};
  }
  folder_ = name;
  return {};
}

Result<void> Rig::start_store() {
  if (options_.shards > 1) {
    auto cluster = OwnCluster::start(
        {.folder = folder_, .masters = options_.shards, .moves_clock = options_.moves_clock});
    if (!cluster) return std::move(cluster).error();
    cluster_ = std::move(*cluster);
    return {};
  }
  std::string target;
  if (options_.store) {
    const policy::StoreHost& host = options_.store->hosts.front();
    target = (host.host.find(':') == std::string::npos ? host.host : "[" + host.host + "]") + ":" +
             std::to_string(host.port);
  } else {
    auto redis = OwnRedis::start(
        {.folder = folder_, .moves_clock = options_.moves_clock, .loads = options_.loads});
    if (!redis) return std::move(redis).error();
    redis_ = std::move(*redis);
    target = loopback(redis_->port());
  }
  auto proxy = FaultProxy::start({.target = target});
  if (!proxy) return std::move(proxy).error();
  proxy_ = std::move(*proxy);
  return {};
}

// Where Weir is to look for its store.
std::string Rig::store_url() const {
  if (cluster_) return cluster_->url();
  if (!options_.store) return "redis://" + loopback(proxy_->port()) + "/0";
  const policy::StoreUrl& store = *options_.store;
  std::string url = "redis://";
  if (!store.username.empty() || !store.password.empty()) {
    url += url_encoded(store.username) + ":" + url_encoded(store.password) + "@";
  }
  return url + loopback(proxy_->port()) + "/" + std::to_string(store.database);
}

Result<void> Rig::start_weir() {
  const std::string url = store_url();
  std::vector<std::string> words = {options_.weir_program, "serve",
                                    fs::absolute(options_.policy).string()};
  if (options_.store) words.insert(words.end(), {"--store-prefix", key_prefix()});
  if (options_.has_state) {
    std::error_code ignored;
    fs::create_directory(folder_ + "/state", ignored);
    words.insert(words.end(), {"--state", folder_ + "/state"});
  }
  if (options_.has_journal) words.insert(words.end(), {"--journal", journal()});
  words.insert(words.end(), {"--http", "127.0.0.1:0", "--grpc", "off", "--admin", "127.0.0.1:0",
                             "--drain-delay", "0s"});
  // The address may hold a password: it stands in no list of processes.
  auto child = ChildProcess::start(words, folder_, folder_ + "/weir.log", {"WEIR_STORE=" + url});
  if (!child) return child.error();
  weir_ = std::move(*child);
  const MonoTime until = Clock::real().mono() + kStartPatience;
  while (weir_->running() && Clock::real().mono() < until) {
    const std::string text = weir_->output();
    http_port_ = port_of(text, "http");
    admin_port_ = port_of(text, "admin");
    if (http_port_ != 0 && admin_port_ != 0) return {};
    std::this_thread::sleep_for(20ms);
  }
  return Error{ErrorCode::unavailable, "weir serve does not serve: " + last_lines(weir_->output())};
}

Result<void> Rig::act(const Phase& phase) {
  if (cluster_) return cluster_->first().act(phase);
  if (redis_) return redis_->act(phase);
  act_by_proxy(*proxy_, phase);
  return {};
}

std::string Rig::metrics() const {
  const std::string answer =
      exchange(loopback(admin_port_),
               "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", "");
  const std::size_t body = answer.find("\r\n\r\n");
  return body == std::string::npos ? std::string() : answer.substr(body + 4);
}

std::string Rig::store_version() const {
  const std::string info =
      exchange(loopback(cluster_ ? cluster_->first_proxy().port() : proxy_->port()),
               "INFO server\r\n", "\r\n\r\n");
  constexpr std::string_view kField = "redis_version:";
  const std::size_t at = info.find(kField);
  if (at == std::string::npos) return {};
  const std::size_t begin = at + kField.size();
  return "redis " + info.substr(begin, info.find('\r', begin) - begin);
}

bool Rig::stop() {
  weir_->signal(SIGTERM);
  return weir_->wait(kStartPatience);
}

}  // namespace weir::drill
