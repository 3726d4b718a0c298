#pragma once

#include <cstdint>
#include <string>

#include "weir/result.h"

namespace weir::ledger {

// Whose database a file is: SQLite keeps the two numbers in its header, and file(1) shows them.
struct FileMark {
  std::uint32_t application = 0;
  std::uint32_t format = 0;
  const char* noun = "";  // "journal"
};
inline constexpr FileMark kJournalFile{0x5745494A, 1, "journal"};  // "WEIJ"
inline constexpr FileMark kLedgerFile{0x5745494C, 1, "ledger"};    // "WEIL"

enum class Found : std::uint8_t {
  absent,
  empty,  // nothing in it, or nothing yet: whoever began it did not come to an end
  ours,
};

// What lies at `path`, by the first bytes of it. SQLite does nothing to the file: what is not ours
// stays as it is.
//
// Errors:      invalid_argument: another program's, of another format, or damaged; unavailable: it
//              cannot be read.
Result<Found> look_at_file(const std::string& path, const std::string& vfs, const FileMark& mark);

}  // namespace weir::ledger
