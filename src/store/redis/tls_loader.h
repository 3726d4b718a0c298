#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

// Boost 1.74 needs <utility> before its headers.
#include <utility>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>

#include "store/redis/tls_context.h"
#include "weir/result.h"

namespace weir::store::redis {

// Looks after the TLS files of all connections of an event loop, in a thread of its own: whatever
// the disk takes, and however many authorities there are, the loop goes on.
//
// Threads:     ask() in the loop's.
class TlsLoader final : public boost::asio::execution_context::service {
 public:
  using Done = std::function<void(Result<std::shared_ptr<const TlsContext>>)>;

  static inline boost::asio::execution_context::id id;
  static TlsLoader& of(boost::asio::io_context& io) {
    return boost::asio::use_service<TlsLoader>(io);
  }
  explicit TlsLoader(boost::asio::io_context& io)
      : boost::asio::execution_context::service(io), io_(io) {}
  ~TlsLoader() override { stop(); }

  // `done` is called in the loop, with what the files are now.
  void ask(const TlsFiles& files, Done done);

 private:
  using Work = boost::asio::executor_work_guard<boost::asio::io_context::executor_type>;
  struct Asked {
    TlsFiles files;
    Done done;
    Work work;  // the loop has something to wait for
  };

  void shutdown() override { stop(); }
  void stop();
  void run();

  boost::asio::io_context& io_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Asked> asked_;
  bool stopping_ = false;
  TlsContexts contexts_;  // the thread's alone
  std::thread thread_;    // from the first question on
};

}  // namespace weir::store::redis
