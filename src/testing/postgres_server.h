#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace weir::testing {

// A real PostgreSQL on a free port of 127.0.0.1, in a folder of its own; ended by its pid. It will
// not run as root: started by root, it runs as nobody.
class PostgresServer {
 public:
  // Whether Debian's postgresql is installed here.
  static bool installed();

  // Throws std::runtime_error where it does not answer within 30 seconds.
  PostgresServer();
  ~PostgresServer();  // an immediate shutdown, and the folder is removed
  PostgresServer(const PostgresServer&) = delete;
  PostgresServer& operator=(const PostgresServer&) = delete;

  // Of one of its databases, for libpq.
  std::string url(const std::string& database = "postgres") const;
  // As psql -c does.
  void execute(const std::string& sql) const;
  // A fresh database; its name.
  std::string make_database();

  void kill();   // SIGKILL; its children notice, and end
  void start();  // again, on the same port and data

 private:
  void launch();
  std::string folder_;
  std::uint16_t port_;
  pid_t pid_ = -1;
  int databases_ = 0;
};

}  // namespace weir::testing
