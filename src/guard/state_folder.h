#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ladder/membership.h"
#include "weir/result.h"

namespace weir::guard {

// Where a worker keeps what it last read of its fleet, for a start while the store is away: one
// file a store, replaced as a whole, and one process at a time that may begin by it.
//
// Guarantees:  whoever reads it finds one whole view or another, whenever the process or the
//              machine ended; once write() has returned well, that view or a later one.
// Threads:     one at a time.
class StateFolder {
 public:
  // `store` tells the files of different stores apart: whatever names one.
  //
  // Errors:      invalid_argument where the folder cannot be made or written to.
  static Result<StateFolder> open(const std::string& folder, const std::string& store);

  // What names a store for open(): where it is and what its keys begin with, whoever asks there.
  //
  // Requires:    policy::parse_store_url() takes the URL.
  static std::string name_of(const std::string& url, const std::string& prefix);

  // Another file of the same store, and under the same lock: a part of it that has a fleet of its
  // own. Touches no disk.
  StateFolder part(const std::string& name) const;
  // The parts whose files are there.
  std::vector<std::string> parts() const;

  // Whether no other process had opened it when this one did, and none has since: a part that two
  // took up would be spent twice. Kept as long as any copy of this lives. On a file system without
  // locks nobody can say, and it is so.
  bool alone() const noexcept { return lock_ != nullptr; }

  // Absent: nothing was ever written. Errors: as MembershipView::parse, and unavailable where the
  // file cannot be read.
  std::optional<Result<ladder::MembershipView>> read() const;
  // Errors:      unavailable. The file is gone then, where it could be removed: a start must not
  //              find a view that others no longer count on.
  Result<void> write(const std::string& text) const;
  // Takes the file away, where there is one.
  void remove() const;

  const std::string& path() const noexcept { return path_; }
  // What is to be said where this process is not alone().
  std::string not_alone() const {
    return "state folder: " + path_ +
           " is another process's: its part of the limits is not taken up a second time; give each "
           "worker a folder of its own";
  }

 private:
  StateFolder(std::string folder, std::string path, std::shared_ptr<const void> lock)
      : folder_(std::move(folder)), path_(std::move(path)), lock_(std::move(lock)) {}

  Result<void> replace(const std::string& text) const;

  std::string folder_;
  std::string path_;
  std::shared_ptr<const void> lock_;  // a descriptor; null: another process has it
};

}  // namespace weir::guard
