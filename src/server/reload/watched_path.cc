#include "server/reload/watched_path.h"

#include <dirent.h>
#include <sys/stat.h>

#include <filesystem>
#include <memory>

namespace weir::server {
namespace {

namespace fs = std::filesystem;

// As many links as the kernel follows.
constexpr int kMostLinks = 40;

void collect(const fs::path& path, int links, std::set<std::string>& found) {
  fs::path walked = "/";
  for (auto part = path.begin(); part != path.end(); ++part) {
    if (*part == "/" || part->empty() || *part == ".") continue;
    if (*part == "..") {
      walked = walked.parent_path();
      continue;
    }
    std::error_code none;
    const fs::path next = walked / *part;
    if (!fs::is_symlink(fs::symlink_status(next, none))) {
      walked = next;
      continue;
    }
    found.insert(walked.string());
    if (links == 0) return;
    const fs::path target = fs::read_symlink(next, none);
    fs::path rest = target.is_absolute() ? target : walked / target;
    for (++part; part != path.end(); ++part) rest /= *part;
    return collect(rest, links - 1, found);
  }
  std::error_code none;
  if (fs::is_directory(walked, none)) found.insert(walked.string());
  found.insert(walked.parent_path().string());
}

void append(std::string& out, const std::string& name, const struct stat& file) {
  out += name;
  for (const auto number :
       {static_cast<long long>(file.st_dev), static_cast<long long>(file.st_ino),
        static_cast<long long>(file.st_size), static_cast<long long>(file.st_mtim.tv_sec),
        static_cast<long long>(file.st_mtim.tv_nsec), static_cast<long long>(file.st_ctim.tv_sec),
        static_cast<long long>(file.st_ctim.tv_nsec)}) {
    out += '/';
    out += std::to_string(number);
  }
  out += '\n';
}

}  // namespace

std::set<std::string> directories_on_the_way(const std::string& path) {
  std::set<std::string> found;
  std::error_code none;
  collect(fs::absolute(path, none), kMostLinks, found);
  return found;
}

std::string signature_of(const std::string& path) {
  struct stat file {};
  if (::stat(path.c_str(), &file) != 0) return {};
  std::string signature;
  if (!S_ISDIR(file.st_mode)) {
    append(signature, "", file);
    return signature;
  }
  std::set<std::string> names;
  if (DIR* const folder = ::opendir(path.c_str()); folder != nullptr) {
    while (const dirent* const entry = ::readdir(folder)) names.insert(entry->d_name);
    ::closedir(folder);
  }
  for (const std::string& name : names) {
    if (::stat((path + "/" + name).c_str(), &file) == 0 && S_ISREG(file.st_mode)) {
      append(signature, name, file);
    }
  }
  return signature + "directory";
}

}  // namespace weir::server
