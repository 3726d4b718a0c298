#include "testing/postgres_server.h"

#include <fcntl.h>
#include <grp.h>
#include <libpq-fe.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <thread>
#include <vector>

#include "testing/redis_server.h"

namespace weir::testing {
namespace {

// Debian keeps them out of the path, a folder a version.
std::string program(const std::string& name) {
  std::vector<std::string> found;
  std::error_code none;
  for (const auto& version : std::filesystem::directory_iterator("/usr/lib/postgresql", none)) {
    const auto path = version.path() / "bin" / name;
    if (std::filesystem::exists(path)) found.push_back(path);
  }
  return found.empty() ? std::string() : *std::max_element(found.begin(), found.end());
}

// Starts a program that is no root, in a process group of its own, its words into a file.
pid_t run(const std::vector<std::string>& command, const std::string& log) {
  const passwd* nobody = ::getuid() == 0 ? ::getpwnam("nobody") : nullptr;
  const pid_t pid = ::fork();
  if (pid < 0) throw std::runtime_error("fork failed");
  if (pid > 0) return pid;
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (nobody != nullptr && (::setgroups(0, nullptr) != 0 || ::setgid(nobody->pw_gid) != 0 ||
                            ::setuid(nobody->pw_uid) != 0))
    ::_exit(126);
  const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  ::dup2(out, 1);
  ::dup2(out, 2);
  std::vector<char*> arguments;
  for (const std::string& argument : command)
    arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  (void)!::chdir("/");
  ::setenv("LC_ALL", "C.UTF-8", 1);
  ::execv(arguments[0], arguments.data());
  ::_exit(127);
}

}  // namespace

bool PostgresServer::installed() {
  return !program("initdb").empty() && !program("postgres").empty();
}

PostgresServer::PostgresServer() : port_(free_port()) {
  folder_ = (std::filesystem::temp_directory_path() / "weir-postgres-XXXXXX").string();
  if (::mkdtemp(folder_.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
  if (::getuid() == 0) {
    const passwd* nobody = ::getpwnam("nobody");
    if (nobody == nullptr || ::chown(folder_.c_str(), nobody->pw_uid, nobody->pw_gid) != 0)
      throw std::runtime_error("there is no user 'nobody' to run PostgreSQL");
  }
  const pid_t made = run({program("initdb"), "-D", folder_ + "/data", "-U", "weir", "-A", "trust",
                          "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"},
                         folder_ + "/log");
  int status = 0;
  if (::waitpid(made, &status, 0) != made || status != 0)
    throw std::runtime_error("initdb failed; see " + folder_ + "/log");
  start();
}

PostgresServer::~PostgresServer() {
  if (pid_ > 0) {
    ::kill(pid_, SIGQUIT);
    ::waitpid(pid_, nullptr, 0);
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

std::string PostgresServer::url(const std::string& database) const {
  return "postgresql://weir@127.0.0.1:" + std::to_string(port_) + "/" + database;
}

void PostgresServer::launch() {
  pid_ = run({program("postgres"), "-D", folder_ + "/data", "-p", std::to_string(port_), "-c",
              "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c",
              "shared_buffers=16MB", "-c", "max_connections=20"},
             folder_ + "/log");
}

void PostgresServer::start() {
  launch();
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (PQping(url().c_str()) != PQPING_OK) {
    if (std::chrono::steady_clock::now() > until)
      throw std::runtime_error("PostgreSQL does not answer; see " + folder_ + "/log");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    // It does not start while children of a killed one still hold its memory.
    if (::waitpid(pid_, nullptr, WNOHANG) == pid_) launch();
  }
}

void PostgresServer::execute(const std::string& sql) const {
  PGconn* connection = PQconnectdb(url().c_str());
  PGresult* result = PQexec(connection, sql.c_str());
  const ExecStatusType status = PQresultStatus(result);
  const std::string words = PQerrorMessage(connection);
  PQclear(result);
  PQfinish(connection);
  if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) throw std::runtime_error(words);
}

std::string PostgresServer::make_database() {
  std::string name = "weir" + std::to_string(++databases_);
  execute("CREATE DATABASE " + name);
  return name;
}

void PostgresServer::kill() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

}  // namespace weir::testing
