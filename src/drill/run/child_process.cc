#include "drill/run/child_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <fstream>
#include <iterator>
#include <thread>
#include <utility>

namespace weir::drill {
namespace {

// What runs now, for a signal that ends us: nothing may be left behind.
constexpr std::size_t kMostChildren = 8;
std::array<std::atomic<pid_t>, kMostChildren> running_children{};

void end_children(int number) {
  for (const std::atomic<pid_t>& child : running_children) {
    if (const pid_t pid = child.load(); pid > 0) ::kill(pid, SIGKILL);
  }
  ::signal(number, SIG_DFL);
  ::raise(number);
}

void note_child(pid_t pid) {
  static const bool handled = [] {
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) ::signal(number, end_children);
    return true;
  }();
  (void)handled;
  for (std::atomic<pid_t>& place : running_children) {
    pid_t none = 0;
    if (place.compare_exchange_strong(none, pid)) return;
  }
}

void forget_child(pid_t pid) {
  for (std::atomic<pid_t>& place : running_children) {
    pid_t kept = pid;
    if (place.compare_exchange_strong(kept, 0)) return;
  }
}

}  // namespace

Result<ChildProcess> ChildProcess::start(const std::vector<std::string>& words,
                                         const std::string& folder, const std::string& log,
                                         const std::vector<std::string>& more) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  std::vector<char*> variables;  // the first of a name counts
  for (const std::string& each : more) variables.push_back(const_cast<char*>(each.c_str()));
  for (char** each = environ; *each != nullptr; ++each) variables.push_back(*each);
  variables.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, log.c_str(),
                                   O_WRONLY | O_CREAT | O_APPEND, 0600);
  posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
  posix_spawn_file_actions_addchdir_np(&files, folder.c_str());
  // What is open here is not open there: a child that held the proxy's listening socket would keep
  // it listening after the proxy has closed it.
  posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);
  // A process group of its own: a terminal's interrupt is ours, and we end what we started.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  pid_t pid = -1;
  const int fault =
      ::posix_spawnp(&pid, arguments[0], &files, &attributes, arguments.data(), variables.data());
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (fault != 0) {
    return Error{ErrorCode::unavailable,
                 words.front() + " cannot be started: " + std::strerror(fault)};
  }
  note_child(pid);
  return ChildProcess(pid, log);
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), log_(std::move(other.log_)) {}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  if (this != &other) {
    kill();
    pid_ = std::exchange(other.pid_, -1);
    log_ = std::move(other.log_);
  }
  return *this;
}

ChildProcess::~ChildProcess() {
  kill();
}

void ChildProcess::signal(int number) const noexcept {
  if (pid_ > 0) ::kill(pid_, number);
}

bool ChildProcess::running() noexcept {
  if (pid_ <= 0) return false;
  if (::waitpid(pid_, nullptr, WNOHANG) != pid_) return true;
  forget_child(pid_);
  pid_ = -1;
  return false;
}

bool ChildProcess::wait(Nanos patience) noexcept {
  const MonoTime until = Clock::real().mono() + patience;
  while (running()) {
    if (Clock::real().mono() >= until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

void ChildProcess::kill() noexcept {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  forget_child(pid_);
  pid_ = -1;
}

std::string ChildProcess::output() const {
  std::ifstream file(log_, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace weir::drill
