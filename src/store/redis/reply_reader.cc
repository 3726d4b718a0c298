#include "store/redis/reply_reader.h"

#include <hiredis/hiredis.h>

#include <type_traits>

namespace weir::store::redis {
namespace {

struct Sink {
  std::vector<ReplyNode>* nodes;
  std::string* text;
  std::size_t most_elements;
};

// hiredis only passes these pointers back; anything but null means "made".
void* made(Sink* sink) {
  return sink;
}

Sink* sink_of(const redisReadTask* task) {
  return static_cast<Sink*>(task->privdata);
}

ReplyType type_of(int type) {
  switch (type) {
    case REDIS_REPLY_STRING:
      return ReplyType::string;
    case REDIS_REPLY_STATUS:
      return ReplyType::status;
    case REDIS_REPLY_ERROR:
      return ReplyType::error;
    case REDIS_REPLY_INTEGER:
      return ReplyType::integer;
    case REDIS_REPLY_ARRAY:
      return ReplyType::array;
    default:
      return ReplyType::nil;
  }
}

void* create_string(const redisReadTask* task, char* bytes, std::size_t size) {
  Sink* sink = sink_of(task);
  ReplyNode node{.type = type_of(task->type)};
  node.text_at = static_cast<std::uint32_t>(sink->text->size());
  node.text_size = static_cast<std::uint32_t>(size);
  sink->text->append(bytes, size);
  sink->nodes->push_back(node);
  return made(sink);
}

// Some releases of hiredis pass the count as int, some as size_t.
template <class Count>
void* create_array(const redisReadTask* task, Count elements) {
  Sink* sink = sink_of(task);
  if (elements > static_cast<Count>(sink->most_elements)) return nullptr;
  sink->nodes->push_back(
      {.type = ReplyType::array, .elements = static_cast<std::uint32_t>(elements)});
  return made(sink);
}

void* create_integer(const redisReadTask* task, long long value) {
  Sink* sink = sink_of(task);
  sink->nodes->push_back({.type = ReplyType::integer, .integer = value});
  return made(sink);
}

void* create_nil(const redisReadTask* task) {
  Sink* sink = sink_of(task);
  sink->nodes->push_back({.type = ReplyType::nil});
  return made(sink);
}

void free_object(void*) {}

redisReplyObjectFunctions functions() {
  redisReplyObjectFunctions table{};
  table.createString = create_string;
  table.createArray = create_array;
  table.createInteger = create_integer;
  table.createNil = create_nil;
  table.freeObject = free_object;
  return table;
}

}  // namespace

struct ReplyReader::Parser {
  Sink sink;
  redisReplyObjectFunctions table = functions();
  redisReader* reader = nullptr;

  explicit Parser(Sink s) : sink(s) { open(); }
  ~Parser() { redisReaderFree(reader); }
  Parser(const Parser&) = delete;
  Parser& operator=(const Parser&) = delete;

  void open() {
    reader = redisReaderCreateWithFunctions(&table);
    reader->privdata = &sink;
  }
  void reopen() {
    redisReaderFree(reader);
    open();
  }
  std::size_t held() const { return reader->len - reader->pos; }
};

ReplyReader::ReplyReader(Bounds bounds)
    : bounds_(bounds), parser_(std::make_unique<Parser>(Sink{&nodes_, &text_, bounds.elements})) {}
ReplyReader::~ReplyReader() = default;

bool ReplyReader::feed(std::string_view bytes) {
  if (broken_) return false;
  if (parser_->held() + text_.size() + bytes.size() > bounds_.bytes ||
      redisReaderFeed(parser_->reader, bytes.data(), bytes.size()) != REDIS_OK) {
    broken_ = true;
  }
  return !broken_;
}

ReplyReader::Next ReplyReader::next() {
  if (taken_) {
    nodes_.clear();
    text_.clear();
    taken_ = false;
  }
  if (broken_) return Next::broken;
  void* object = nullptr;
  if (redisReaderGetReply(parser_->reader, &object) != REDIS_OK || text_.size() > bounds_.bytes) {
    broken_ = true;
    return Next::broken;
  }
  if (object == nullptr) return Next::need_more;
  taken_ = true;
  return Next::reply;
}

void ReplyReader::reset() {
  parser_->reopen();
  nodes_.clear();
  text_.clear();
  taken_ = false;
  broken_ = false;
}

}  // namespace weir::store::redis
