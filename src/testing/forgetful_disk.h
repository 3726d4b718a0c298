#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace weir::testing {

// A disk for SQLite that keeps what was synced, and nothing else that it need not. Files live in
// memory; a crash turns them into what a power cut may leave: of every byte written since the last
// sync, what stood there before, or what was written, by sectors.
//
// Operations that change or promise something (open, write, truncate, sync, delete) are counted;
// any of them can be told to fail, once or from then on.
//
// Threads:     any.
class ForgetfulDisk {
 public:
  // Registered with SQLite under name() for as long as it lives.
  ForgetfulDisk();
  ~ForgetfulDisk();
  ForgetfulDisk(const ForgetfulDisk&) = delete;
  ForgetfulDisk& operator=(const ForgetfulDisk&) = delete;
  const std::string& name() const noexcept;

  enum class Fault {
    full,           // writes and truncations: no space
    no_room,        // writes that move the end of a file: no space
    sync,           // syncs: an error; what was to be synced never reaches the disk unless it is
                    // written again, though every reader sees it
    lying_sync,     // syncs: success, and nothing is kept
    read_only,      // writes, truncations and deletions: read-only
    no_descriptor,  // opening: too many files
    input_output,   // whatever comes: an error of the disk
    hang,           // syncs: no answer before heal(), and then a good one
  };
  enum class Lasts { once, until_healed };

  // The `nth` operation from now on that the fault concerns fails (1: the next).
  void fail(Fault fault, std::uint64_t nth, Lasts lasts);
  void heal();
  // Whether a fault that was set came to pass.
  bool failed() const;

  // Operations since the beginning.
  std::uint64_t operations() const;
  // From operation `nth` (counted as operations() does) on, everything fails and nothing reaches
  // the disk: the power is gone.
  void cut_power_at(std::uint64_t nth);
  bool power_is_cut() const;

  // It was not the power, only the process: every reader sees what it saw.
  void go_on();

  // What was not synced: gone, there, or by a draw for each 512 bytes of each write.
  enum class Unsynced { lost, kept, drawn };
  // The power comes back: all open files must be closed by now.
  void restart(Unsynced unsynced, std::uint64_t seed = 0);

  // Turns every bit of a byte of a file; false where there is none.
  bool damage(const std::string& path, std::uint64_t at);
  std::uint64_t size(const std::string& path) const;
  void remove(const std::string& path);

 private:
  struct State;
  struct Glue;
  std::unique_ptr<State> state_;
};

}  // namespace weir::testing
