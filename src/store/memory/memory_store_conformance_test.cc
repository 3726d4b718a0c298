#include "store/memory/memory_store.h"
#include "testing/store_conformance.h"

namespace weir::testing {
namespace {

INSTANTIATE_TEST_SUITE_P(
    Memory, StoreConformance,
    ::testing::Values(StoreUnderTest{"memory store",
                                     [] {
                                       return store::MemoryStore::open({.max_keys = 1'000}).value();
                                     }},
                      StoreUnderTest{"memory store, hardly larger than its keys", [] {
                                       return store::MemoryStore::open({.max_keys = 30}).value();
                                     }}));

// A store with one fault, which the suite must find.
class Faulty final : public store::LocalStore {
 public:
  enum class Fault : std::uint8_t {
    charges_denied_asks,  // what fits is charged though another counter denies
    writes_probes,        // a probe charges
    forgets_refunds,
  };
  explicit Faulty(Fault fault) : fault_(fault) {}

  store::LocalAnswer decide(std::span<const store::Counter> counters, Instant now,
                            std::span<store::Finding> findings) noexcept override {
    std::vector<store::Counter> asked(counters.begin(), counters.end());
    for (store::Counter& counter : asked) {
      if (fault_ == Fault::writes_probes && counter.cost == 0) counter.cost = 1;
      if (fault_ == Fault::forgets_refunds && counter.op == store::Op::refund) counter.cost = 0;
    }
    const store::LocalAnswer answer = store_->decide(asked, now, findings);
    if (fault_ == Fault::charges_denied_asks && !answer.allowed) {
      for (const store::Counter& counter : asked) {
        store::Finding finding;
        (void)store_->decide({&counter, 1}, now, {&finding, 1});
      }
    }
    return answer;
  }
  std::uint64_t keys() const noexcept override { return store_->keys(); }

 private:
  const Fault fault_;
  std::unique_ptr<store::MemoryStore> store_ =
      store::MemoryStore::open({.max_keys = 1'000}).value();
};

TEST(StoreConformanceCanary, FindsAFaultyStore) {
  using Fault = Faulty::Fault;
  for (const Fault fault :
       {Fault::charges_denied_asks, Fault::writes_probes, Fault::forgets_refunds}) {
    int found = 0;
    for (unsigned seed = 1; seed <= 20; ++seed) {
      ConformancePair pair(std::make_unique<Faulty>(fault), seed);
      std::optional<std::string> difference;
      for (int i = 0; i < 150 && !difference; ++i) {
        pair.move_clock(Nanos(pair.pick(500'000'000)));
        difference = pair.ask();
      }
      found += difference.has_value() ? 1 : 0;
    }
    EXPECT_GT(found, 15) << static_cast<int>(fault);
  }
}

}  // namespace
}  // namespace weir::testing
