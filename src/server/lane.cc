#include "server/lane.h"

#include <utility>  // Boost 1.74 needs it first

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <system_error>
#include <thread>
#include <vector>

#include "server/door.h"

namespace weir::server {
namespace {

namespace asio = boost::asio;

thread_local const Lane* running_here = nullptr;

}  // namespace

// In this order, so that what lives on the io_context goes before it.
struct Lane::Loop {
  // One thread runs it: the hint spares the scheduler some waking.
  asio::io_context io{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{io.get_executor()};
  asio::steady_timer sweep_timer{io};
  bool sweep_armed = false;
  std::vector<std::unique_ptr<Listener>> listeners;
  std::vector<std::unique_ptr<Connection>> connections;
  std::thread thread;
};

Lane::Lane(LaneOptions options)
    : options_(options),
      clock_(options.clock != nullptr ? *options.clock : Clock::real()),
      now_(clock_.mono()),
      loop_(std::make_unique<Loop>()) {}

Lane::~Lane() {
  stop();
}

bool Lane::start() {
  try {
    loop_->thread = std::thread([this] { run(); });
    return true;
  } catch (const std::system_error&) {
    return false;
  }
}

void Lane::run() {
  running_here = this;
  loop_->io.run();
  running_here = nullptr;
}

void Lane::stop() {
  loop_->io.stop();
  if (loop_->thread.joinable() && !in_thread()) loop_->thread.join();
}

void Lane::post(std::function<void()> work) {
  asio::post(loop_->io, [this, work = std::move(work)] {
    begin_event();
    work();
  });
}

bool Lane::in_thread() const noexcept {
  return running_here == this;
}

asio::io_context& Lane::io() noexcept {
  return loop_->io;
}

void Lane::listen(ListenSocket socket, std::unique_ptr<Door> door, Transport& transport) {
  loop_->listeners.push_back(
      std::make_unique<Listener>(*this, std::move(socket), std::move(door), transport));
}

void Lane::adopt(std::unique_ptr<Connection> connection) {
  Connection& kept = *connection;
  kept.slot_ = loop_->connections.size();
  loop_->connections.push_back(std::move(connection));
  counts_.open.store(connections(), std::memory_order_relaxed);
  arm_sweep();
  if (draining_) kept.drain();
}

void Lane::release(Connection& connection) {
  auto& all = loop_->connections;
  const std::size_t slot = connection.slot_;
  const std::unique_ptr<Connection> gone = std::move(all[slot]);
  if (slot + 1 != all.size()) {
    all[slot] = std::move(all.back());
    all[slot]->slot_ = slot;
  }
  all.pop_back();
  counts_.open.store(connections(), std::memory_order_relaxed);
  report_drained();
}

std::size_t Lane::connections() const noexcept {
  return loop_->connections.size();
}

void Lane::arm_sweep() {
  if (std::exchange(loop_->sweep_armed, true)) return;
  loop_->sweep_timer.expires_after(
      std::chrono::duration_cast<asio::steady_timer::duration>(options_.sweep));
  loop_->sweep_timer.async_wait([this](const boost::system::error_code& fault) {
    loop_->sweep_armed = false;
    if (fault) return;
    sweep();
    if (connections() != 0) arm_sweep();
  });
}

void Lane::sweep() {
  begin_event();
  // By index and backwards: a sweep may release the connection it looks at, and the last one takes
  // its place.
  for (std::size_t i = connections(); i-- > 0;) {
    if (i < connections()) loop_->connections[i]->sweep(now_);
  }
}

void Lane::drain(std::function<void()> drained) {
  drained_ = std::move(drained);
  draining_ = true;
  const std::size_t before = connections();
  for (auto& listener : loop_->listeners) listener->close();
  loop_->listeners.clear();
  for (std::size_t i = before; i-- > 0;) loop_->connections[i]->drain();
  report_drained();
}

void Lane::report_drained() {
  if (!draining_ || !drained_ || connections() != 0) return;
  asio::post(loop_->io, std::exchange(drained_, nullptr));
}

}  // namespace weir::server
