// Whatever a server says, it is a decision, an error or nonsense: never a crash, and never a grant
// that was not said.

#include <cstdint>
#include <cstdlib>
#include <vector>

#include "store/redis/ask_codec.h"

namespace {

using namespace weir;
using namespace weir::store;
using namespace weir::store::redis;

limit::Numbers numbers_of(Algorithm algorithm) {
  limit::Request request;
  request.algorithm = algorithm;
  request.limit = 10;
  request.period.length = std::chrono::seconds(60);
  return limit::Numbers::make(request).value();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const limit::Numbers numbers[] = {
      numbers_of(Algorithm::gcra), numbers_of(Algorithm::fixed_window),
      numbers_of(Algorithm::sliding_window), numbers_of(Algorithm::sliding_log)};
  if (size < 2) return 0;
  const std::size_t count = 1 + data[0] % 4;
  std::vector<Counter> counters(count);
  for (std::size_t i = 0; i < count; ++i) {
    counters[i].numbers = &numbers[(data[0] / 4 + i) % 4];
    counters[i].op = static_cast<Op>(data[1] % 4);
    counters[i].cost = data[1] / 4;
  }
  const auto form = static_cast<AskForm>(data[0] / 64 % 3);
  if (form == AskForm::brief) counters.resize(1);
  if (form != AskForm::full) {
    for (Counter& counter : counters) {
      counter.numbers = &numbers[form == AskForm::brief ? 0 : data[1] % 2];
      counter.op = Op::take;
    }
  }
  const Instant now{std::chrono::seconds(1'700'000'000)};
  ReplyReader reader;
  reader.feed({reinterpret_cast<const char*>(data) + 2, size - 2});
  std::vector<CounterReply> replies;
  while (reader.next() == ReplyReader::Next::reply) {
    if (reader.reply().root().type == ReplyType::error) continue;
    const DecodedAsk decoded =
        decode_ask(reader.reply(), form, counters, {}, {now, now}, now, replies);
    if (decoded.outcome != AskOutcome::decided) continue;
    for (const CounterReply& reply : replies) {
      if (reply.finding.step.remaining > reply.numbers.burst) std::abort();
    }
  }
  return 0;
}
