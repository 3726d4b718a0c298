#include "limit/gcra.h"

#include <gtest/gtest.h>

#include "testing/step_story.h"

namespace weir::limit {
namespace {

using namespace std::chrono_literals;
using testing::Story;

TEST(Gcra, AdmitsTheBurstAtOnceThenOneAnInterval) {
  Story story({.algorithm = Algorithm::gcra, .limit = 10, .period = {60s}, .burst = 3});
  story.at(0s).take(1).allowed(2);
  story.at(0s).take(1).allowed(1);
  story.at(0s).take(1).allowed(0);
  story.at(0s).take(1).limited(0, 6s);
  story.at(5s).take(1).limited(0, 1s);
  story.at(6s).take(1).allowed(0);
  story.at(6s).take(1).limited(0, 6s);
  story.at(24s).take(0).allowed(3);
}

}  // namespace
}  // namespace weir::limit
