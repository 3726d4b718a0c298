#pragma once

#include <functional>
#include <memory>
#include <string>

#include "weir/clock.h"

namespace weir::server {

class Lane;

struct PolicyWatchOptions {
  // How long a file must rest before it counts as changed: an editor's several steps are one.
  Nanos quiet{std::chrono::milliseconds(100)};
  // The longest that a file is waited for which somebody keeps open after writing to it.
  Nanos patience{std::chrono::seconds(5)};
  // Between two looks besides: network file systems do not tell of a change made elsewhere.
  Nanos poll{std::chrono::seconds(2)};
  bool inotify = true;  // false: polling alone, as where the system has no more watches to give
};

// Tells when a policy file, or a file in a policy directory, may have changed: written in place,
// replaced by rename, or reached through a symbolic link anywhere in its path that was swapped (as
// Kubernetes does with ..data and deployments with `current`). Compares nothing but file metadata:
// what is in the file is for whoever loads it.
//
// Guarantees:  a change made after construction is told, at least once, after it has come to rest.
//              A file that is gone is told like a change.
// Threads:     the lane's, or anybody's while the lane does not run.
class PolicyWatch {
 public:
  // `changed` is called in the lane's thread.
  PolicyWatch(Lane& lane, std::string path, std::function<void()> changed,
              PolicyWatchOptions options = {});
  ~PolicyWatch();
  PolicyWatch(const PolicyWatch&) = delete;
  PolicyWatch& operator=(const PolicyWatch&) = delete;

  // Tells of a change once more at the next look, though there may be none: what came of the last
  // one may have been for a reason that passes. In the lane's thread.
  void look_again();

  // Whether the system tells of changes; otherwise only polling does.
  bool told() const noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weir::server
