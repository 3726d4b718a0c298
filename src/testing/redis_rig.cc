#include "testing/redis_rig.h"

#include <utility>

// Boost 1.74 needs <utility> before its headers.
#include <boost/asio/io_context.hpp>

#include "policy/key.h"
#include "store/redis/asio_wire.h"

namespace weir::testing {

using namespace store::redis;
using store::Counter;
using store::Op;

RigRule::RigRule(std::uint64_t identity, std::uint64_t limit, Nanos period, Algorithm algorithm,
                 std::string_view value)
    : identity_(identity) {
  limit::Request request;
  request.algorithm = algorithm;
  request.limit = limit;
  request.period.length = period;
  numbers_ = limit::Numbers::make(request).value();
  std::vector<char> buffer(policy::KeyWriter::kMaxKeyBytes);
  policy::KeyWriter writer(buffer.data(), identity);
  writer.value(value, ValueDigester::from_text("test"));
  key_ = writer.view();
}

Counter RigRule::counter(std::uint64_t cost, Op op) const {
  Counter counter;
  counter.numbers = &numbers_;
  counter.identity = identity_;
  counter.digest = {identity_, std::hash<std::string>{}(key_)};
  counter.key = key_;
  counter.cost = cost;
  counter.op = op;
  return counter;
}

struct RedisRig::Loop {
  boost::asio::io_context io{1};
};

RedisRig::Options RedisRig::on_port(std::uint16_t port) {
  Options options;
  options.endpoint = {"127.0.0.1", port, ""};
  options.client.connect_timeout = std::chrono::seconds(5);
  options.client.session.hang_after = options.deadline;
  return options;
}

RedisRig::RedisRig(Options options)
    : options_(std::move(options)),
      loop_(std::make_unique<Loop>()),
      wire_(std::make_unique<AsioWire>(loop_->io, options_.endpoint, options_.lookup)),
      client_(std::make_unique<RedisClient>(options_.client,
                                            KeySpace::make(options_.prefix, "").value(), *wire_,
                                            Clock::real(), *this)) {}

RedisRig::~RedisRig() {
  client_.reset();
  wire_.reset();
}

bool RedisRig::run_until(const std::function<bool()>& done) {
  const MonoTime until = Clock::real().mono() + std::chrono::seconds(10);
  while (!done()) {
    if (Clock::real().mono() >= until) return false;
    loop_->io.restart();
    loop_->io.run_one_for(std::chrono::milliseconds(10));
  }
  return true;
}

void RedisRig::run_for(Nanos time) {
  loop_->io.restart();
  loop_->io.run_for(time);
}

bool RedisRig::connect() {
  client_->start();
  return run_until([this] { return client_->ready(); });
}

std::uint64_t RedisRig::ask_async(std::span<const Counter> counters, AskOptions options) {
  const MonoTime now = Clock::real().mono();
  if (options.answer_by == MonoTime{}) options.answer_by = now + options_.deadline;
  if (options.vote_by == MonoTime{}) options.vote_by = now + options_.deadline;
  results_.emplace_back();
  const std::uint64_t token = results_.size();
  client_->ask(counters, options, *this, token);
  return token;
}

RedisRig::Result RedisRig::ask(const std::vector<Counter>& counters, AskOptions options) {
  const std::uint64_t token = ask_async(counters, std::move(options));
  run_until([&] { return result(token).answered; });
  return result(token);
}

void RedisRig::on_answer(std::uint64_t token, const Answer& answer) {
  Result& result = results_[token - 1];
  if (result.answered) ++answered_;  // twice: answered() and asked() will differ
  result.answered = true;
  result.decided = answer.decided();
  result.allowed = answer.allowed;
  result.disagreed = answer.disagreed;
  result.error = answer.error != nullptr ? answer.error->pattern : "";
  result.latency = answer.latency;
  result.counters.assign(answer.counters.begin(), answer.counters.end());
  ++answered_;
  if (on_each_answer) on_each_answer(token);
}

void RedisRig::on_vote(const Vote& vote) {
  ++votes;
  if (vote.failed) ++failures;
}

void RedisRig::on_late(const LateReply& reply) {
  ++late;
  if (reply.answer.allowed) ++late_allowed;
}

void RedisRig::on_disconnected(const ErrorRow& why, std::string_view) {
  disconnects.emplace_back(why.pattern);
}

}  // namespace weir::testing
