#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <functional>
#include <string>

#include "testing/forgetful_disk.h"

namespace weir::testing {

// A way in which a disk fails, as the parameter of a test.
struct DiskFault {
  ForgetfulDisk::Fault fault;
  const char* name;
};

// All of them but a lying one, which no program can see.
inline constexpr std::array<DiskFault, 5> kDiskFaults{{
    {ForgetfulDisk::Fault::full, "full"},
    {ForgetfulDisk::Fault::sync, "failed_sync"},
    {ForgetfulDisk::Fault::read_only, "read_only"},
    {ForgetfulDisk::Fault::no_descriptor, "no_descriptor"},
    {ForgetfulDisk::Fault::input_output, "input_output"},
}};

inline std::string name_of_fault(const ::testing::TestParamInfo<DiskFault>& fault) {
  return fault.param.name;
}

// One life under a disk that may fail, for sweep().
struct SweptLife {
  std::function<void()> begin;   // makes all new
  std::function<void()> during;  // while the fault may come
  std::function<void()> after;   // once somebody mended the disk
};

// Lives again and again, and each time the n-th operation that the fault concerns fails, for
// n = 1, 2, 3 … until a life passes without: once, and then until somebody mends the disk. Ends at
// the first fatal failure. Returns how many lives there were.
inline std::uint64_t sweep(ForgetfulDisk& disk, const DiskFault& fault, const SweptLife& life) {
  std::uint64_t lives = 0;
  for (const auto lasts : {ForgetfulDisk::Lasts::once, ForgetfulDisk::Lasts::until_healed}) {
    bool failed = true;
    for (std::uint64_t nth = 1; failed; ++nth, ++lives) {
      SCOPED_TRACE(std::string(fault.name) + " at " + std::to_string(nth) +
                   (lasts == ForgetfulDisk::Lasts::once ? ", once" : ", until mended"));
      life.begin();
      disk.fail(fault.fault, nth, lasts);
      life.during();
      failed = disk.failed();
      disk.heal();
      if (::testing::Test::HasFatalFailure()) return lives;
      life.after();
      if (::testing::Test::HasFatalFailure()) return lives;
    }
  }
  return lives;
}

}  // namespace weir::testing
