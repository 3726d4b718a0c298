#include "testing/sim/sim_process.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace weir::testing {
namespace {

using namespace std::chrono_literals;
using First = SimProcess::First;

// What a process does that is stopped from 1 to 5 ms: a timer of 2 ms, something that comes at 3
// ms, and a timer of 4 ms.
std::string done_after_a_stop(First first) {
  SimLoop loop;
  SimProcess process(loop);
  const MonoTime began = loop.mono();
  std::string done;
  const auto note = [&](const std::string& what) {
    return [&, what] { done += what + "@" + std::to_string((loop.mono() - began) / 1ms) + " "; };
  };
  process.after(1ms, note("before"));
  process.after(2ms, note("two"));
  loop.after(3ms, [&] { process.hear(note("word")); });
  process.after(4ms, note("four"));
  process.after(5ms, note("five"));
  loop.run_for(1ms);
  process.stop();
  EXPECT_TRUE(process.stopped());
  loop.run_for(4ms);
  process.go_on(first);
  loop.run_for(1ms);
  return done;
}

TEST(SimProcess, DoesInOneInstantWhatWaitedWhileItWasStopped) {
  EXPECT_EQ(done_after_a_stop(First::longest_due), "before@1 two@5 word@5 four@5 five@5 ");
  EXPECT_EQ(done_after_a_stop(First::what_came), "before@1 word@5 two@5 four@5 five@5 ");
  EXPECT_EQ(done_after_a_stop(First::timers), "before@1 two@5 four@5 five@5 word@5 ");
}

TEST(SimProcess, DoesNothingAnyMoreOnceItIsGone) {
  SimLoop loop;
  auto process = std::make_unique<SimProcess>(loop);
  int done = 0;
  process->after(1ms, [&] { ++done; });
  process->stop();
  process->hear([&] { ++done; });
  process->go_on();
  process.reset();
  loop.run_for(5ms);
  EXPECT_EQ(done, 0);
}

TEST(SimProcess, MayEndItselfInTheMiddleOfWhatItDoes) {
  SimLoop loop;
  auto process = std::make_unique<SimProcess>(loop);
  int done = 0;
  process->stop();
  process->hear([&] { process.reset(); });
  process->hear([&] { ++done; });
  process->go_on();
  loop.run_for(1ms);
  EXPECT_EQ(process, nullptr);
  EXPECT_EQ(done, 0) << "what came after that came for nobody";
}

}  // namespace
}  // namespace weir::testing
