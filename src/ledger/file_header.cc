#include "ledger/file_header.h"

#include <sqlite3.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <vector>

#include "ledger/sqlite.h"

namespace weir::ledger {
namespace {

// The header of a database of SQLite, as its file format has it.
constexpr std::size_t kHeaderBytes = 100;
constexpr char kMagic[16] = "SQLite format 3";
constexpr std::size_t kFormatAt = 60;
constexpr std::size_t kApplicationAt = 68;
using Header = std::array<unsigned char, kHeaderBytes>;

std::uint32_t number_at(const Header& header, std::size_t at) {
  return std::uint32_t{header[at]} << 24 | std::uint32_t{header[at + 1]} << 16 |
         std::uint32_t{header[at + 2]} << 8 | header[at + 3];
}

bool is_there(const std::string& path, sqlite3_vfs* own) {
  if (own == nullptr) {
    struct stat found {};
    return ::stat(path.c_str(), &found) == 0;
  }
  int there = 0;
  own->xAccess(own, path.c_str(), SQLITE_ACCESS_EXISTS, &there);
  return there != 0;
}

// Through SQLite's own files: a descriptor of ours, closed, would take its locks in this process
// with it.
class OpenFile {
 public:
  OpenFile(sqlite3_vfs* vfs, const std::string& path)
      : room_(static_cast<std::size_t>(vfs->szOsFile)),
        name_(sqlite3_create_filename(path.c_str(), "", "", 0, nullptr)) {
    int flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_MAIN_DB;
    code_ = vfs->xOpen(vfs, name_, file(), flags, &flags);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() {
    if (file()->pMethods != nullptr) file()->pMethods->xClose(file());
    sqlite3_free_filename(name_);
  }
  int code() const noexcept { return code_; }
  // As many bytes as there are; the rest of `header` is zero.
  int read(Header& header, sqlite3_int64& size) {
    if (const int code = file()->pMethods->xFileSize(file(), &size); code != SQLITE_OK) return code;
    const int code =
        file()->pMethods->xRead(file(), header.data(), static_cast<int>(header.size()), 0);
    return code == SQLITE_IOERR_SHORT_READ ? SQLITE_OK : code;
  }

 private:
  sqlite3_file* file() noexcept { return reinterpret_cast<sqlite3_file*>(room_.data()); }
  std::vector<std::max_align_t> room_;
  sqlite3_filename name_;
  int code_;
};

Error not_ours(const std::string& path, const FileMark& mark, const std::string& why) {
  return Error{ErrorCode::invalid_argument,
               path + ": " + why + "; it is left as it is. Name another place, or bring the " +
                   mark.noun + " back that was here"};
}

}  // namespace

Result<Found> look_at_file(const std::string& path, const std::string& vfs, const FileMark& mark) {
  sqlite3_vfs* const own = vfs.empty() ? nullptr : sqlite3_vfs_find(vfs.c_str());
  if (!is_there(path, own)) return Found::absent;
  Header header{};
  sqlite3_int64 size = 0;
  {
    OpenFile file(own != nullptr ? own : sqlite3_vfs_find(nullptr), path);
    if (file.code() != SQLITE_OK) return sqlite_error(nullptr, file.code(), path, "opening");
    if (const int code = file.read(header, size); code != SQLITE_OK)
      return sqlite_error(nullptr, code, path, "reading its header");
  }
  if (size == 0) return Found::empty;
  const bool blank = std::all_of(header.begin(), header.end(), [](auto b) { return b == 0; });
  // SQLite undoes what its journal is of: the first transaction, which did not come to its end.
  if (blank && is_there(path + "-journal", own)) return Found::empty;
  constexpr sqlite3_int64 kLeastPage = 512;
  if (size < kLeastPage || std::memcmp(header.data(), kMagic, sizeof kMagic) != 0) {
    return not_ours(path, mark,
                    std::to_string(size) + " bytes that are damaged, or no " + mark.noun);
  }
  if (const std::uint32_t application = number_at(header, kApplicationAt);
      application != mark.application) {
    return not_ours(path, mark,
                    "a database of another program (its application_id is " +
                        std::to_string(application) + ", and a " + mark.noun + "'s " +
                        std::to_string(mark.application) + ")");
  }
  if (const std::uint32_t format = number_at(header, kFormatAt); format != mark.format) {
    return Error{ErrorCode::failed_precondition, path + ": a " + mark.noun + " of format " +
                                                     std::to_string(format) +
                                                     ", which this release does not read"};
  }
  return Found::ours;
}

}  // namespace weir::ledger
