#pragma once

#include <set>
#include <string>

namespace weir::server {

// The directories in which something must happen before `path` can lead to other contents: the one
// that holds the file, and each that holds a symbolic link on the way to it. For a directory, it
// too.
std::set<std::string> directories_on_the_way(const std::string& path);

// What the file system says of the file, or of each file of the directory, that `path` leads to.
// Differs after every change that moves a size, a time or an inode. Empty: nothing is there.
std::string signature_of(const std::string& path);

}  // namespace weir::server
