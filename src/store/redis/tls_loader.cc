#include "store/redis/tls_loader.h"

#include <boost/asio/post.hpp>

namespace weir::store::redis {

void TlsLoader::ask(const TlsFiles& files, Done done) {
  {
    std::lock_guard lock(mutex_);
    asked_.push_back({files, std::move(done), Work(io_.get_executor())});
  }
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  changed_.notify_one();
}

void TlsLoader::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !asked_.empty(); });
    if (stopping_) return;
    Asked next = std::move(asked_.front());
    asked_.pop_front();
    lock.unlock();
    auto found = contexts_.of(next.files);
    boost::asio::post(io_, [done = std::move(next.done), found = std::move(found),
                            work = std::move(next.work)]() mutable { done(std::move(found)); });
    lock.lock();
  }
}

void TlsLoader::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
  asked_.clear();
}

}  // namespace weir::store::redis
