#include "guard/name_question.h"

#include <chrono>
#include <string>
#include <utility>

#include "guard/shard_driver.h"
#include "store/redis/script.h"
#include "store/redis/store_report.h"

namespace weir::guard {

namespace redis = store::redis;

void NameQuestion::ask(ShardDriver& server) {
  if (!server.ready()) return;
  for (const policy::NameTrial& name : names_) {
    {
      const std::lock_guard lock(mutex_);
      ++open_;
    }
    server.call(redis::name_test(name), kPatience,
                [self = shared_from_this(), &name](const redis::ErrorRow* error,
                                                   const redis::Reply* reply, bool late) {
                  if (!late) self->answered(redis::name_objection(name, error, reply));
                });
  }
}

void NameQuestion::answered(std::optional<std::string> objection) {
  const std::lock_guard lock(mutex_);
  if (objection && !objection_) objection_ = std::move(objection);
  --open_;
  changed_.notify_all();
}

std::optional<std::string> NameQuestion::wait() {
  std::unique_lock lock(mutex_);
  // Longer than the calls: whose loop stands still says nothing either.
  changed_.wait_for(lock, 2 * kPatience, [this] { return open_ == 0 || objection_; });
  return objection_;
}

}  // namespace weir::guard
