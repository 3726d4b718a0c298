#include "testing/forgetful_disk.h"

#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <new>
#include <optional>
#include <random>
#include <vector>

namespace weir::testing {
namespace {

constexpr std::size_t kSector = 512;

// One change since the last sync.
struct Change {
  std::size_t at = 0;
  std::string bytes;
  std::optional<std::size_t> truncated;  // to this size, instead of bytes
};

struct File {
  std::string seen;     // what every reader sees
  std::string durable;  // what is on the disk
  std::vector<Change> unsynced;
  bool there = true;
  bool there_durable = false;

  int handles = 0;
  std::vector<std::vector<char>> shared;  // the wal-index: gone once nobody has the file open
  std::array<int, SQLITE_SHM_NLOCK> readers{};
  std::array<bool, SQLITE_SHM_NLOCK> writer{};
  int locks_shared = 0;
  bool lock_reserved = false, lock_exclusive = false;
};

void carry_out(const Change& change, std::string& to) {
  if (change.truncated) {
    to.resize(std::min(to.size(), *change.truncated));
    return;
  }
  if (to.size() < change.at + change.bytes.size()) to.resize(change.at + change.bytes.size());
  to.replace(change.at, change.bytes.size(), change.bytes);
}

std::atomic<int> g_disks{0};

}  // namespace

struct ForgetfulDisk::State {
  std::string name = "forgetful-" + std::to_string(++g_disks);
  sqlite3_vfs vfs{};
  sqlite3_vfs* system = nullptr;
  mutable std::mutex mutex;
  std::map<std::string, std::shared_ptr<File>> files;
  std::uint64_t operations = 0;
  std::uint64_t power_until = std::numeric_limits<std::uint64_t>::max();
  std::optional<Fault> fault;
  std::uint64_t countdown = 0;
  Lasts lasts = Lasts::once;
  bool failed = false;
  bool hangs = false;
  std::condition_variable healed;

  bool powered() const { return operations <= power_until; }

  enum class Doing { open, write, grow, truncate, sync, remove };
  static bool concerns(Fault fault, Doing doing) {
    switch (fault) {
      case Fault::full:
        return doing == Doing::write || doing == Doing::grow || doing == Doing::truncate;
      case Fault::no_room:
        return doing == Doing::grow;
      case Fault::sync:
      case Fault::lying_sync:
      case Fault::hang:
        return doing == Doing::sync;
      case Fault::read_only:
        return doing != Doing::open && doing != Doing::sync;
      case Fault::no_descriptor:
        return doing == Doing::open;
      case Fault::input_output:
        return true;
    }
    return false;
  }
  // Counts an operation; the fault that strikes it.
  std::optional<Fault> begin(Doing doing) {
    ++operations;
    if (!fault || !concerns(*fault, doing)) return std::nullopt;
    if (countdown > 1) {
      --countdown;
      return std::nullopt;
    }
    failed = true;
    const Fault strikes = *fault;
    if (lasts == Lasts::once) fault.reset();
    return strikes;
  }
};

struct ForgetfulDisk::Glue {
  struct Handle {
    sqlite3_file base;  // first: SQLite sees this part
    State* disk;
    std::shared_ptr<File> file;
    std::string path;
    int lock;
    bool delete_on_close;
    std::array<bool, SQLITE_SHM_NLOCK> shared_here, writer_here;
  };
  static Handle& of(sqlite3_file* file) { return *reinterpret_cast<Handle*>(file); }
  static State& of(sqlite3_vfs* vfs) { return *static_cast<State*>(vfs->pAppData); }

  static int close(sqlite3_file* file) {
    Handle& handle = of(file);
    unlock(file, SQLITE_LOCK_NONE);
    {
      std::lock_guard lock(handle.disk->mutex);
      if (--handle.file->handles == 0) handle.file->shared.clear();
      if (handle.delete_on_close) handle.disk->files.erase(handle.path);
    }
    handle.~Handle();
    return SQLITE_OK;
  }
  static int read(sqlite3_file* file, void* out, int bytes, sqlite3_int64 at) {
    Handle& handle = of(file);
    std::lock_guard lock(handle.disk->mutex);
    const std::string& seen = handle.file->seen;
    const auto begin = std::min(static_cast<std::size_t>(at), seen.size());
    const auto count = std::min(static_cast<std::size_t>(bytes), seen.size() - begin);
    std::memcpy(out, seen.data() + begin, count);
    if (count == static_cast<std::size_t>(bytes)) return SQLITE_OK;
    std::memset(static_cast<char*>(out) + count, 0, static_cast<std::size_t>(bytes) - count);
    return SQLITE_IOERR_SHORT_READ;
  }
  static int change(sqlite3_file* file, State::Doing doing, Change change) {
    Handle& handle = of(file);
    std::lock_guard lock(handle.disk->mutex);
    if (doing == State::Doing::write &&
        change.at + change.bytes.size() > handle.file->seen.size()) {
      doing = State::Doing::grow;
    }
    if (const auto fault = handle.disk->begin(doing)) {
      if (*fault == Fault::full || *fault == Fault::no_room) return SQLITE_FULL;
      return *fault == Fault::read_only ? SQLITE_READONLY : SQLITE_IOERR_WRITE;
    }
    if (!handle.disk->powered()) return SQLITE_IOERR_WRITE;
    carry_out(change, handle.file->seen);
    handle.file->unsynced.push_back(std::move(change));
    return SQLITE_OK;
  }
  static int write(sqlite3_file* file, const void* in, int bytes, sqlite3_int64 at) {
    return change(
        file, State::Doing::write,
        {.at = static_cast<std::size_t>(at),
         .bytes = std::string(static_cast<const char*>(in), static_cast<std::size_t>(bytes)),
         .truncated = std::nullopt});
  }
  static int truncate(sqlite3_file* file, sqlite3_int64 size) {
    return change(file, State::Doing::truncate,
                  {.at = 0, .bytes = {}, .truncated = static_cast<std::size_t>(size)});
  }
  static int sync(sqlite3_file* file, int) {
    Handle& handle = of(file);
    State& disk = *handle.disk;
    std::unique_lock lock(disk.mutex);
    File& kept = *handle.file;
    const auto fault = disk.begin(State::Doing::sync);
    if (fault == Fault::hang) {
      disk.hangs = true;
      disk.healed.wait(lock, [&disk] { return !disk.hangs; });
    } else if (fault) {
      // As Linux does: the pages are clean now, and no later sync looks at them.
      kept.unsynced.clear();
      return *fault == Fault::lying_sync ? SQLITE_OK : SQLITE_IOERR_FSYNC;
    }
    if (!handle.disk->powered()) return SQLITE_IOERR_FSYNC;
    for (const Change& change : kept.unsynced) carry_out(change, kept.durable);
    kept.unsynced.clear();
    kept.there_durable = kept.there;
    return SQLITE_OK;
  }
  static int size(sqlite3_file* file, sqlite3_int64* out) {
    Handle& handle = of(file);
    std::lock_guard lock(handle.disk->mutex);
    *out = static_cast<sqlite3_int64>(handle.file->seen.size());
    return SQLITE_OK;
  }
  static int lock(sqlite3_file* file, int level) {
    Handle& handle = of(file);
    if (level <= handle.lock) return SQLITE_OK;
    std::lock_guard lock(handle.disk->mutex);
    File& kept = *handle.file;
    if (level == SQLITE_LOCK_SHARED) {
      if (kept.lock_exclusive) return SQLITE_BUSY;
      ++kept.locks_shared;
    } else if (level == SQLITE_LOCK_RESERVED) {
      if (kept.lock_reserved) return SQLITE_BUSY;
      kept.lock_reserved = true;
    } else {
      if (kept.locks_shared > 1) return SQLITE_BUSY;
      kept.lock_exclusive = true;
      kept.lock_reserved = true;
    }
    handle.lock = level;
    return SQLITE_OK;
  }
  static int unlock(sqlite3_file* file, int level) {
    Handle& handle = of(file);
    if (level >= handle.lock) return SQLITE_OK;
    std::lock_guard lock(handle.disk->mutex);
    File& kept = *handle.file;
    if (handle.lock >= SQLITE_LOCK_RESERVED) kept.lock_reserved = false;
    if (handle.lock > SQLITE_LOCK_RESERVED) kept.lock_exclusive = false;
    if (level == SQLITE_LOCK_NONE) --kept.locks_shared;
    handle.lock = level;
    return SQLITE_OK;
  }
  static int reserved(sqlite3_file* file, int* out) {
    Handle& handle = of(file);
    std::lock_guard lock(handle.disk->mutex);
    *out = handle.file->lock_reserved ? 1 : 0;
    return SQLITE_OK;
  }
  static int control(sqlite3_file*, int, void*) { return SQLITE_NOTFOUND; }
  static int sector_size(sqlite3_file*) { return static_cast<int>(kSector); }
  // As the system's files: a write leaves the bytes beside it alone.
  static int characteristics(sqlite3_file*) { return SQLITE_IOCAP_POWERSAFE_OVERWRITE; }

  static int shm_map(sqlite3_file* file, int region, int bytes, int extend, void volatile** out) {
    Handle& handle = of(file);
    std::lock_guard lock(handle.disk->mutex);
    auto& shared = handle.file->shared;
    *out = nullptr;
    if (static_cast<std::size_t>(region) >= shared.size()) {
      if (extend == 0) return SQLITE_OK;
      shared.reserve(64);  // pointers into it stay
      while (shared.size() <= static_cast<std::size_t>(region))
        shared.emplace_back(static_cast<std::size_t>(bytes), '\0');
    }
    *out = shared[static_cast<std::size_t>(region)].data();
    return SQLITE_OK;
  }
  static int shm_lock(sqlite3_file* file, int offset, int count, int flags) {
    Handle& handle = of(file);
    std::lock_guard lock(handle.disk->mutex);
    File& kept = *handle.file;
    for (auto i = static_cast<std::size_t>(offset); i < static_cast<std::size_t>(offset + count);
         ++i) {
      if ((flags & SQLITE_SHM_UNLOCK) != 0) continue;
      const int others = kept.readers[i] - (handle.shared_here[i] ? 1 : 0);
      const bool written = kept.writer[i] && !handle.writer_here[i];
      if (written || ((flags & SQLITE_SHM_EXCLUSIVE) != 0 && others > 0)) return SQLITE_BUSY;
    }
    for (auto i = static_cast<std::size_t>(offset); i < static_cast<std::size_t>(offset + count);
         ++i) {
      bool& mine =
          (flags & SQLITE_SHM_EXCLUSIVE) != 0 ? handle.writer_here[i] : handle.shared_here[i];
      const bool wanted = (flags & SQLITE_SHM_LOCK) != 0;
      if (mine == wanted) continue;
      mine = wanted;
      if ((flags & SQLITE_SHM_EXCLUSIVE) != 0) {
        kept.writer[i] = wanted;
      } else {
        kept.readers[i] += wanted ? 1 : -1;
      }
    }
    return SQLITE_OK;
  }
  // A lock taken and let go orders memory, and the thread sanitizer knows it.
  static void shm_barrier(sqlite3_file* file) { std::lock_guard lock(of(file).disk->mutex); }
  static int shm_unmap(sqlite3_file* file, int) {
    Handle& handle = of(file);
    std::lock_guard lock(handle.disk->mutex);
    for (std::size_t i = 0; i < SQLITE_SHM_NLOCK; ++i) {
      if (handle.shared_here[i]) --handle.file->readers[i];
      if (handle.writer_here[i]) handle.file->writer[i] = false;
    }
    handle.shared_here.fill(false);
    handle.writer_here.fill(false);
    return SQLITE_OK;
  }

  static const sqlite3_io_methods* methods() {
    static const sqlite3_io_methods all = {
        2,         close,    read,    write,       truncate,        sync,    size,     lock,
        unlock,    reserved, control, sector_size, characteristics, shm_map, shm_lock, shm_barrier,
        shm_unmap, nullptr,  nullptr};
    return &all;
  }

  static int open(sqlite3_vfs* vfs, const char* path, sqlite3_file* file, int flags, int* out) {
    State& disk = of(vfs);
    file->pMethods = nullptr;
    std::lock_guard lock(disk.mutex);
    const std::string name =
        path != nullptr ? path : "temporary-" + std::to_string(disk.operations);
    if (disk.begin(State::Doing::open) || !disk.powered()) {
      errno = EMFILE;
      return SQLITE_CANTOPEN;
    }
    auto found = disk.files.find(name);
    if (found == disk.files.end() || !found->second->there) {
      if ((flags & SQLITE_OPEN_CREATE) == 0) return SQLITE_CANTOPEN;
      found = disk.files.insert_or_assign(name, std::make_shared<File>()).first;
    }
    ++found->second->handles;
    new (file) Handle{.base = {.pMethods = methods()},
                      .disk = &disk,
                      .file = found->second,
                      .path = name,
                      .lock = SQLITE_LOCK_NONE,
                      .delete_on_close = (flags & SQLITE_OPEN_DELETEONCLOSE) != 0,
                      .shared_here = {},
                      .writer_here = {}};
    if (out != nullptr) *out = flags;
    return SQLITE_OK;
  }
  static int remove(sqlite3_vfs* vfs, const char* path, int) {
    State& disk = of(vfs);
    std::lock_guard lock(disk.mutex);
    if (const auto fault = disk.begin(State::Doing::remove))
      return *fault == Fault::read_only ? SQLITE_READONLY : SQLITE_IOERR_DELETE;
    const auto found = disk.files.find(path);
    if (found == disk.files.end()) return SQLITE_IOERR_DELETE_NOENT;
    if (!disk.powered()) return SQLITE_IOERR_DELETE;
    disk.files.erase(found);
    return SQLITE_OK;
  }
  static int access(sqlite3_vfs* vfs, const char* path, int, int* out) {
    State& disk = of(vfs);
    std::lock_guard lock(disk.mutex);
    const auto found = disk.files.find(path);
    *out =
        found != disk.files.end() && (found->second->there && !found->second->seen.empty()) ? 1 : 0;
    return SQLITE_OK;
  }
  static int full_path(sqlite3_vfs*, const char* path, int room, char* out) {
    sqlite3_snprintf(room, out, "%s", path);
    return SQLITE_OK;
  }
  static int randomness(sqlite3_vfs* vfs, int bytes, char* out) {
    return of(vfs).system->xRandomness(of(vfs).system, bytes, out);
  }
  static int sleep(sqlite3_vfs* vfs, int micros) {
    return of(vfs).system->xSleep(of(vfs).system, micros);
  }
  static int time(sqlite3_vfs* vfs, double* out) {
    return of(vfs).system->xCurrentTime(of(vfs).system, out);
  }
  static int last_error(sqlite3_vfs*, int, char*) { return 0; }
};

ForgetfulDisk::ForgetfulDisk() : state_(std::make_unique<State>()) {
  sqlite3_initialize();
  state_->system = sqlite3_vfs_find(nullptr);
  sqlite3_vfs& vfs = state_->vfs;
  vfs.iVersion = 1;
  vfs.szOsFile = sizeof(Glue::Handle);
  vfs.mxPathname = 1'024;
  vfs.zName = state_->name.c_str();
  vfs.pAppData = state_.get();
  vfs.xOpen = Glue::open;
  vfs.xDelete = Glue::remove;
  vfs.xAccess = Glue::access;
  vfs.xFullPathname = Glue::full_path;
  vfs.xRandomness = Glue::randomness;
  vfs.xSleep = Glue::sleep;
  vfs.xCurrentTime = Glue::time;
  vfs.xGetLastError = Glue::last_error;
  sqlite3_vfs_register(&vfs, 0);
}

ForgetfulDisk::~ForgetfulDisk() {
  sqlite3_vfs_unregister(&state_->vfs);
}

const std::string& ForgetfulDisk::name() const noexcept {
  return state_->name;
}

void ForgetfulDisk::fail(Fault fault, std::uint64_t nth, Lasts lasts) {
  std::lock_guard lock(state_->mutex);
  state_->fault = fault;
  state_->countdown = nth;
  state_->lasts = lasts;
  state_->failed = false;
}

void ForgetfulDisk::heal() {
  std::lock_guard lock(state_->mutex);
  state_->fault.reset();
  state_->hangs = false;
  state_->healed.notify_all();
}

bool ForgetfulDisk::failed() const {
  std::lock_guard lock(state_->mutex);
  return state_->failed;
}

std::uint64_t ForgetfulDisk::operations() const {
  std::lock_guard lock(state_->mutex);
  return state_->operations;
}

void ForgetfulDisk::cut_power_at(std::uint64_t nth) {
  std::lock_guard lock(state_->mutex);
  state_->power_until = nth - 1;
}

bool ForgetfulDisk::power_is_cut() const {
  std::lock_guard lock(state_->mutex);
  return !state_->powered();
}

void ForgetfulDisk::go_on() {
  std::lock_guard lock(state_->mutex);
  state_->power_until = std::numeric_limits<std::uint64_t>::max();
}

void ForgetfulDisk::restart(Unsynced unsynced, std::uint64_t seed) {
  std::lock_guard lock(state_->mutex);
  std::mt19937_64 random(seed);
  const auto survives = [&] {
    return unsynced == Unsynced::kept || (unsynced == Unsynced::drawn && (random() & 1) != 0);
  };
  for (auto it = state_->files.begin(); it != state_->files.end();) {
    File& file = *it->second;
    for (const Change& change : file.unsynced) {
      if (change.truncated) {
        if (survives()) carry_out(change, file.durable);
        continue;
      }
      for (std::size_t at = 0; at < change.bytes.size(); at += kSector) {
        if (survives())
          carry_out(
              {.at = change.at + at, .bytes = change.bytes.substr(at, kSector), .truncated = {}},
              file.durable);
      }
    }
    const bool stays = file.there_durable || survives();
    auto fresh = std::make_shared<File>();
    fresh->seen = fresh->durable = file.durable;
    fresh->there_durable = true;
    if (stays) {
      it->second = std::move(fresh);
      ++it;
    } else {
      it = state_->files.erase(it);
    }
  }
  state_->power_until = std::numeric_limits<std::uint64_t>::max();
  state_->fault.reset();
}

bool ForgetfulDisk::damage(const std::string& path, std::uint64_t at) {
  std::lock_guard lock(state_->mutex);
  const auto found = state_->files.find(path);
  if (found == state_->files.end() || at >= found->second->seen.size()) return false;
  for (std::string* bytes : {&found->second->seen, &found->second->durable}) {
    if (at < bytes->size()) (*bytes)[at] = static_cast<char>(~(*bytes)[at]);
  }
  return true;
}

std::uint64_t ForgetfulDisk::size(const std::string& path) const {
  std::lock_guard lock(state_->mutex);
  const auto found = state_->files.find(path);
  return found == state_->files.end() ? 0 : found->second->seen.size();
}

void ForgetfulDisk::remove(const std::string& path) {
  std::lock_guard lock(state_->mutex);
  state_->files.erase(path);
}

}  // namespace weir::testing
