#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "server/http/http_door.h"
#include "server/http/request_parser.h"
#include "server/lane.h"
#include "server/stream.h"

namespace weir::server::http {

// One client: reads requests out of one buffer, answers in order, keeps to the Bounds.
class HttpConnection final : public Connection, public StreamOwner, private Exchange {
 public:
  HttpConnection(Lane& lane, std::unique_ptr<Stream> stream, std::shared_ptr<HttpContext> context);
  ~HttpConnection() override;

  // Begins reading.
  void start();

  // What its buffers hold of memory.
  std::size_t held_bytes() const noexcept { return capacity_ + out_.capacity(); }

  void sweep(MonoTime now) override;
  void drain() override;

  void on_read(std::size_t bytes) override;
  void on_end() override;
  void on_written() override;
  void on_failed() override;
  void on_closed() override;

 private:
  friend class Later;

  // What the sweep holds the client to.
  enum class Phase : std::uint8_t { idle, receiving, answering, sending, lingering, closed };

  // An answer that waits for its turn or for its Handler.
  struct Slot {
    bool ready = false;
    Framing framing;
    std::string bytes;
    std::shared_ptr<Later::State> later;
  };

  void decision(const Decision& decision) override { writer().decision(decision); }
  void problem(int status, std::string_view detail, std::string_view lines) override {
    writer().problem(status, detail, lines);
  }
  void body(int status, std::string_view content_type, std::string_view body,
            std::string_view lines) override {
    writer().body(status, content_type, body, lines);
  }
  Later later() override;
  // Where the answer to the request that is being handled goes.
  ResponseWriter writer();

  void process();
  // Answers what is whole in the buffer. True when it stopped for what is unsent, not for lack of
  // requests.
  bool answer_buffered();
  bool answer_one();
  void answer_fault(int status, std::string_view detail);
  void count_fault(int status);
  void finish(const std::shared_ptr<Later::State>& state,
              const std::function<void(Responder&)>& write);
  void take_ready_slots();
  void flush();
  void settle();
  void start_read();
  void make_room();
  void enter(Phase phase);
  void linger();
  void close();

  std::string_view buffered() const { return {in_.get() + begin_, end_ - begin_}; }

  Lane& lane_;
  std::unique_ptr<Stream> stream_;
  std::shared_ptr<HttpContext> context_;
  RequestParser parser_;

  // Input: bytes [begin_, end_) are read and not yet consumed.
  std::unique_ptr<char[]> in_;
  std::size_t capacity_ = 0;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;

  std::string out_;  // answers in order; not touched while writing_
  std::deque<Slot> slots_;
  Framing framing_;        // of the request that is being handled
  bool answered_ = false;  // or promised

  Phase phase_ = Phase::answering;
  MonoTime due_{};
  bool reading_ = false;
  bool writing_ = false;
  bool continued_ = false;  // 100 was sent for the request in the buffer
  bool last_ = false;       // no further request is taken: close once all is answered
  bool ended_ = false;      // the client sends nothing more
  bool draining_ = false;
};

}  // namespace weir::server::http
