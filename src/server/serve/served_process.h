#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <optional>
#include <string>
#include <thread>

#include "server/serve.h"
#include "server/serve/test_client.h"

namespace weir::server {

// A real server in a process of its own, on free ports, with a policy file in a folder of its own.
class ServedProcess {
 public:
  static constexpr const char* kToken = "a-token-for-tests-0123456789";

  explicit ServedProcess(const std::string& policy,
                         std::function<void(ServeOptions&)> change = {}) {
    static std::atomic<int> count{0};
    folder_ = std::filesystem::canonical(::testing::TempDir()) /
              ("weir_serve_" + std::to_string(::getpid()) + "_" + std::to_string(++count));
    std::filesystem::create_directories(folder_);
    write_policy(policy);
    options_.policy_path = policy_path();
    options_.http = "127.0.0.1:0";
    options_.grpc = "off";
    options_.admin = "127.0.0.1:0";
    options_.admin_token_file = path("token");
    options_.lanes = 2;
    options_.drain_delay = std::chrono::milliseconds(300);
    std::ofstream(path("token")) << kToken << '\n';
    if (change) change(options_);
    start();
  }
  ServedProcess(const ServedProcess&) = delete;
  ServedProcess& operator=(const ServedProcess&) = delete;
  ~ServedProcess() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    std::filesystem::remove_all(folder_);
  }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string policy_path() const { return path("weir.yaml"); }
  // Replaces the policy file by rename, as a careful writer does.
  void write_policy(const std::string& text) const {
    std::ofstream(path("weir.yaml.new")) << text;
    std::filesystem::rename(path("weir.yaml.new"), policy_path());
  }

  pid_t pid() const { return pid_; }
  bool ready() const { return out().find(" is ready") != std::string::npos; }
  std::string out() const { return read(path("out")); }
  std::string err() const { return read(path("err")); }
  std::uint16_t http() const { return port_of("  http "); }
  std::uint16_t grpc() const { return port_of("  grpc "); }
  std::uint16_t admin() const { return port_of("  admin "); }

  void signal(int number) const { ::kill(pid_, number); }
  // The exit code; 128 + N for a death by signal N; -1 where it did not end in time.
  int wait() {
    int status = 0;
    const bool ended = within([&] { return ::waitpid(pid_, &status, WNOHANG) == pid_; });
    if (!ended) return -1;
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  // One question on a connection of its own.
  TestClient::Answer http(const std::string& method, const std::string& target,
                          const std::string& body = "", const std::string& fields = "") const {
    return TestClient(http()).ask(method, target, body, fields).value_or(TestClient::Answer{});
  }
  TestClient::Answer admin(const std::string& method, const std::string& target,
                           const std::string& body = "", const std::string& fields = "") const {
    return TestClient(admin()).ask(method, target, body, fields).value_or(TestClient::Answer{});
  }
  static std::string bearer() { return "Authorization: Bearer " + std::string(kToken) + "\r\n"; }

  static bool within(const std::function<bool()>& come_true) {
    const auto end = std::chrono::steady_clock::now() + TestClient::kPatience;
    while (!come_true()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return true;
  }

 private:
  static std::string read(const std::string& name) {
    std::ifstream in(name);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::uint16_t port_of(const std::string& line) const {
    const std::string text = out();
    const std::size_t at = text.find(line);
    if (at == std::string::npos) return 0;
    const std::string address = text.substr(at, text.find('\n', at) - at);
    return static_cast<std::uint16_t>(std::stoul(address.substr(address.rfind(':') + 1)));
  }

  void start() {
    pid_ = ::fork();
    if (pid_ == 0) {
      (void)std::freopen(path("out").c_str(), "w", stdout);
      (void)std::freopen(path("err").c_str(), "w", stderr);
      std::_Exit(serve(options_, std::cout, std::cerr));
    }
    // Either it is ready, or it has ended and left its status for wait().
    within([&] {
      siginfo_t ended{};
      return ready() ||
             (::waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
              ended.si_pid == pid_);
    });
  }

  std::filesystem::path folder_;
  ServeOptions options_;
  pid_t pid_ = -1;
};

}  // namespace weir::server
