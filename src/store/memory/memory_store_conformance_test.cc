#include "store/memory/memory_store.h"
#include "testing/store_conformance.h"

namespace weir::testing {
namespace {

INSTANTIATE_TEST_SUITE_P(Memory, StoreConformance,
                         ::testing::Values(StoreUnderTest{
                             "memory store", [] {
                               return store::MemoryStore::open({.max_keys = 1'000}).value();
                             }}));

}  // namespace
}  // namespace weir::testing
