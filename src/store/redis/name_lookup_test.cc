#include "store/redis/name_lookup.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace weir::store::redis {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;

// A resolver that answers nothing for "hangs…" until it is told to, and one address for the others.
class HangingResolver {
 public:
  NameLookup::Resolve resolve() {
    return [asked = asked_, go_on = go_on_.get_future().share()](const std::string& host) {
      ++*asked;
      if (host.starts_with("hangs")) go_on.wait();
      if (host == "throws") throw std::runtime_error("no memory");
      if (host == "nobody") return NameLookup::Addresses{};
      return NameLookup::Addresses{asio::ip::make_address("192.0.2.1")};
    };
  }
  void go_on() { go_on_.set_value(); }
  int asked() const { return *asked_; }

 private:
  std::shared_ptr<std::atomic<int>> asked_ = std::make_shared<std::atomic<int>>(0);
  std::promise<void> go_on_;
};

class NameLookupTest : public ::testing::Test {
 protected:
  void make() {
    io_.emplace();
    lookup_ = new NameLookup(*io_, resolver_.resolve());
    asio::add_service(*io_, lookup_);  // it owns it
  }
  // Runs the loop until that many have been answered; it may wait for others still.
  void until_told(std::size_t most) {
    const auto until = std::chrono::steady_clock::now() + 30s;
    while (told_.size() < most && std::chrono::steady_clock::now() < until) {
      io_->run_one_for(100ms);
      io_->restart();
    }
  }
  void ask(const std::string& host) {
    lookup_->ask(host, [this, host](const NameLookup::Addresses& found) {
      told_.push_back(host + (found.empty() ? "" : " " + found[0].to_string()));
    });
  }

  HangingResolver resolver_;
  std::optional<asio::io_context> io_;
  NameLookup* lookup_ = nullptr;
  std::vector<std::string> told_;
};

TEST_F(NameLookupTest, ANameThatHangsKeepsNoOtherWaiting) {
  make();
  ask("hangs");
  ask("store");
  ask("nobody");
  until_told(2);
  std::sort(told_.begin(), told_.end());
  EXPECT_EQ(told_, (std::vector<std::string>{"nobody", "store 192.0.2.1"}));
  resolver_.go_on();
  until_told(3);
  EXPECT_EQ(told_.back(), "hangs 192.0.2.1");
}

// Were it waited for, this would never end: nobody tells it to go on before.
TEST_F(NameLookupTest, NobodyWaitsForANameThatHangsWhereTheLoopEnds) {
  make();
  ask("hangs");
  io_.reset();
  EXPECT_TRUE(told_.empty());
  resolver_.go_on();
}

TEST_F(NameLookupTest, WhoeverAsksForTheSameNameMeanwhileAsksNobodyAgain) {
  make();
  for (int i = 0; i < 3; ++i) ask("hangs");
  resolver_.go_on();
  until_told(3);
  EXPECT_EQ(told_.size(), 3u);
  EXPECT_EQ(resolver_.asked(), 1);
  ask("hangs");
  until_told(4);
  EXPECT_EQ(resolver_.asked(), 2) << "what was found is not kept";
}

TEST_F(NameLookupTest, AResolverThatThrowsFindsNothing) {
  make();
  ask("throws");
  until_told(1);
  EXPECT_EQ(told_, std::vector<std::string>{"throws"});
}

// Copied into the thread of each name, and just now there is no memory for that.
TEST(NameLookup, AnswersWhereThereIsNoMemoryForAThreadAndTheNextTimeAsEver) {
  struct Resolver {
    explicit Resolver(const bool& given) : no_memory(&given) {}
    Resolver(const Resolver& other) : no_memory(other.no_memory) {
      if (*no_memory) throw std::bad_alloc();
    }
    NameLookup::Addresses operator()(const std::string&) const {
      return {asio::ip::make_address("192.0.2.1")};
    }
    const bool* no_memory;
  };
  bool no_memory = false;
  asio::io_context io;
  auto* const lookup = new NameLookup(io, Resolver(no_memory));
  asio::add_service(io, lookup);  // it owns it
  std::vector<std::size_t> told;
  const auto ask = [&] {
    lookup->ask("store", [&](const NameLookup::Addresses& found) { told.push_back(found.size()); });
  };
  no_memory = true;
  ask();
  ask();
  io.run();
  EXPECT_EQ(told, (std::vector<std::size_t>{0, 0}));
  no_memory = false;
  io.restart();
  ask();
  io.run();
  EXPECT_EQ(told.back(), 1u);
}

// Each is a thread.
TEST_F(NameLookupTest, AsksForSoManyNamesAtOnceAndNoMore) {
  make();
  for (int i = 0; i < 32; ++i) ask("hangs" + std::to_string(i));
  ask("store");
  until_told(1);
  EXPECT_EQ(told_, std::vector<std::string>{"store"}) << "not asked for";
  resolver_.go_on();
  until_told(33);
  ask("store");
  until_told(34);
  EXPECT_EQ(told_.back(), "store 192.0.2.1");
}

TEST(NameLookup, FindsWhatTheSystemKnows) {
  asio::io_context io;
  std::optional<NameLookup::Addresses> found;
  NameLookup::of(io).ask("localhost", [&](const NameLookup::Addresses& now) { found = now; });
  io.run();
  ASSERT_TRUE(found);
  ASSERT_FALSE(found->empty());
  for (const auto& one : *found) EXPECT_TRUE(one.is_loopback()) << one;
}

}  // namespace
}  // namespace weir::store::redis
