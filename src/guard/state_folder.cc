#include "guard/state_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/hex.h"
#include "base/key_digest.h"
#include "policy/store_url.h"

namespace weir::guard {
namespace {

// A view of the largest fleet has some 200 KiB.
constexpr std::size_t kMostBytes = std::size_t{1} << 20;

class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  bool good() const { return descriptor_ >= 0; }
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

Error unavailable(const std::string& path, const char* what) {
  return Error{ErrorCode::unavailable,
               "state folder: " + path + " cannot be " + what + ": " + std::strerror(errno)};
}

bool write_all(int descriptor, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t n = ::write(descriptor, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += static_cast<std::size_t>(n);
  }
  return true;
}

// Null: another process has it. A lock ends with its process, however that ends.
std::shared_ptr<const void> lock(const std::string& path) {
  const auto file =
      std::make_shared<const File>(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0640));
  if (file->good() && ::flock(file->get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return nullptr;
  }
  return file;
}

}  // namespace

Result<StateFolder> StateFolder::open(const std::string& folder, const std::string& store) {
  const auto refused = [&folder](const std::string& why) {
    return Error{ErrorCode::invalid_argument,
                 "store.workers.state: " + folder + " " + why + ": " + std::strerror(errno)};
  };
  if (::mkdir(folder.c_str(), 0750) != 0 && errno != EEXIST) return refused("cannot be made");
  struct stat found {};
  if (::stat(folder.c_str(), &found) != 0) return refused("cannot be looked at");
  if (!S_ISDIR(found.st_mode)) {
    errno = ENOTDIR;
    return refused("is no folder");
  }
  if (::access(folder.c_str(), W_OK | X_OK) != 0) return refused("cannot be written to");
  static const KeyHasher hasher(
      KeyHasher::Secret{'w', 'e', 'i', 'r', ' ', 's', 't', 'a', 't', 'e'});
  const std::string path = folder + "/membership-" + hex(hasher(store).lo);
  return StateFolder(folder, path, lock(path + ".lock"));
}

std::string StateFolder::name_of(const std::string& url, const std::string& prefix) {
  return policy::store_identity(url) + " " + prefix;
}

StateFolder StateFolder::part(const std::string& name) const {
  return StateFolder(folder_, path_ + "-" + name, lock_);
}

std::vector<std::string> StateFolder::parts() const {
  std::vector<std::string> out;
  const std::string before = path_.substr(folder_.size() + 1) + "-";
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder_, error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    // "….new.PID" is of a write that was cut off.
    if (!name.starts_with(before) || name.find('.') != std::string::npos) continue;
    out.push_back(name.substr(before.size()));
  }
  return out;
}

void StateFolder::remove() const {
  (void)::unlink(path_.c_str());
}

std::optional<Result<ladder::MembershipView>> StateFolder::read() const {
  // A pipe would keep the start waiting for a writer.
  const File file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.good() && errno == ENOENT) return std::nullopt;
  struct stat found {};
  if (file.good() && ::fstat(file.get(), &found) == 0 && !S_ISREG(found.st_mode)) {
    return Result<ladder::MembershipView>(Error{
        ErrorCode::invalid_argument, "store.workers.state: " + path_ + " is no regular file"});
  }
  if (!file.good()) return Result<ladder::MembershipView>(unavailable(path_, "read"));
  std::string text;
  char piece[16'384];
  for (;;) {
    const ssize_t n = ::read(file.get(), piece, sizeof(piece));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Result<ladder::MembershipView>(unavailable(path_, "read"));
    if (n == 0) break;
    text.append(piece, static_cast<std::size_t>(n));
    if (text.size() > kMostBytes) break;  // no view is so long
  }
  return ladder::MembershipView::parse(text);
}

Result<void> StateFolder::write(const std::string& text) const {
  Result<void> replaced = replace(text);
  if (!replaced) (void)::unlink(path_.c_str());
  return replaced;
}

Result<void> StateFolder::replace(const std::string& text) const {
  // Of this process alone: in an overlapping restart two may write.
  const std::string fresh = path_ + ".new." + std::to_string(::getpid());
  {
    const File file(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640));
    if (!file.good()) return unavailable(fresh, "made");
    if (!write_all(file.get(), text) || ::fsync(file.get()) != 0) {
      const Error why = unavailable(fresh, "written");
      (void)::unlink(fresh.c_str());
      return why;
    }
  }
  if (::rename(fresh.c_str(), path_.c_str()) != 0) return unavailable(path_, "replaced");
  // The name, too, is to survive the machine.
  const File directory(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.good() || ::fsync(directory.get()) != 0) return unavailable(folder_, "synced");
  return {};
}

}  // namespace weir::guard
