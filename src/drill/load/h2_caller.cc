#include "drill/load/h2_caller.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <new>

namespace weir::drill {
namespace {

constexpr std::uint32_t kOurWindow = 0x7fff'ffff;
constexpr std::uint64_t kGiveBack = 1U << 24U;

void append_word(std::string& out, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift & 0xff);
}

void append_frame(std::string& out, std::uint8_t type, std::uint8_t flags, std::uint32_t stream,
                  std::string_view payload) {
  out += static_cast<char>(payload.size() >> 16 & 0xff);
  out += static_cast<char>(payload.size() >> 8 & 0xff);
  out += static_cast<char>(payload.size() & 0xff);
  out += static_cast<char>(type);
  out += static_cast<char>(flags);
  append_word(out, stream);
  out += payload;
}

std::uint32_t word_at(std::string_view bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = at; i < at + 4; ++i) {
    value = value << 8U | static_cast<std::uint8_t>(bytes[i]);
  }
  return value;
}

// In whole milliseconds where that is exact, else in microseconds; eight digits are enough for
// both.
std::string timeout_text(Nanos timeout) {
  const auto us = std::max<std::int64_t>(1, timeout.count() / 1'000);
  if (us % 1'000 == 0) return std::to_string(std::min<std::int64_t>(us / 1'000, 99'999'999)) + "m";
  return std::to_string(std::min<std::int64_t>(us, 99'999'999)) + "u";
}

nghttp2_nv header(const std::string& name, const std::string& value) {
  return {reinterpret_cast<std::uint8_t*>(const_cast<char*>(name.data())),
          reinterpret_cast<std::uint8_t*>(const_cast<char*>(value.data())), name.size(),
          value.size(), NGHTTP2_NV_FLAG_NONE};
}

std::string deflate(nghttp2_hd_deflater* deflater, std::vector<nghttp2_nv>& headers) {
  std::string block(nghttp2_hd_deflate_bound(deflater, headers.data(), headers.size()), '\0');
  const auto size = nghttp2_hd_deflate_hd(deflater, reinterpret_cast<std::uint8_t*>(block.data()),
                                          block.size(), headers.data(), headers.size());
  block.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
  return block;
}

int number_of(std::string_view text) {
  int value = -1;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace

H2Caller::H2Caller(const CallTarget& target, std::uint32_t max_calls)
    : max_calls_(max_calls), streams_(kPlaces) {
  std::vector<std::pair<std::string, std::string>> texts = {{":method", "POST"},
                                                            {":scheme", "http"},
                                                            {":path", target.path},
                                                            {":authority", target.authority},
                                                            {"te", "trailers"}};
  if (target.timeout) texts.emplace_back("grpc-timeout", timeout_text(*target.timeout));
  texts.emplace_back("content-type", "application/grpc");
  texts.emplace_back("user-agent", "weir-bench");
  std::vector<nghttp2_nv> headers;
  for (const auto& [name, value] : texts) headers.push_back(header(name, value));
  nghttp2_hd_deflater* deflater = nullptr;
  if (nghttp2_hd_deflate_new(&deflater, 4096) != 0) throw std::bad_alloc();
  first_block_ = deflate(deflater, headers);
  block_ = deflate(deflater, headers);
  nghttp2_hd_deflate_del(deflater);
  if (nghttp2_hd_inflate_new(&inflater_) != 0) throw std::bad_alloc();
}

H2Caller::~H2Caller() {
  nghttp2_hd_inflate_del(inflater_);
}

void H2Caller::start(std::string& out) const {
  out.append(NGHTTP2_CLIENT_MAGIC, NGHTTP2_CLIENT_MAGIC_LEN);
  std::string settings;
  for (const auto& [id, value] : {std::pair<std::uint16_t, std::uint32_t>{2, 0}, {4, kOurWindow}}) {
    settings += static_cast<char>(id >> 8);
    settings += static_cast<char>(id & 0xff);
    append_word(settings, value);
  }
  append_frame(out, NGHTTP2_SETTINGS, 0, 0, settings);
  std::string more;
  append_word(more, kOurWindow - 65'535);
  append_frame(out, NGHTTP2_WINDOW_UPDATE, 0, 0, more);
}

bool H2Caller::can_call(std::size_t body) const noexcept {
  const auto bytes = static_cast<std::int64_t>(body);
  return !leaving_ && in_flight_ < std::min(max_calls_, peer_max_) && window_ >= bytes &&
         stream_window_ >= bytes && place_of(next_id_).id == 0 && next_id_ < 0x7fff'ffff;
}

void H2Caller::call(std::string_view body, std::uint64_t tag, std::string& out) {
  Stream& stream = place_of(next_id_);
  stream.id = next_id_;
  stream.tag = tag;
  stream.http_status = 0;
  stream.grpc_status = -1;
  stream.body.clear();
  append_frame(out, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, next_id_,
               block_sent_ ? block_ : first_block_);
  append_frame(out, NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, next_id_, body);
  block_sent_ = true;
  window_ -= static_cast<std::int64_t>(body.size());
  next_id_ += 2;
  ++in_flight_;
}

bool H2Caller::feed(std::string_view bytes, std::string& out, const OnReply& on_reply) {
  if (!partial_.empty()) {
    partial_ += bytes;
    bytes = partial_;
  }
  while (bytes.size() >= 9) {
    const std::size_t size = word_at(bytes, 0) >> 8U;
    if (bytes.size() < 9 + size) break;
    const auto type = static_cast<std::uint8_t>(bytes[3]);
    const auto flags = static_cast<std::uint8_t>(bytes[4]);
    const std::uint32_t id = word_at(bytes, 5) & 0x7fff'ffff;
    if (!on_frame(type, flags, id, bytes.substr(9, size), out, on_reply)) return false;
    bytes.remove_prefix(9 + size);
  }
  // May be a part of partial_ itself.
  std::string rest(bytes);
  partial_.swap(rest);
  return true;
}

bool H2Caller::on_frame(std::uint8_t type, std::uint8_t flags, std::uint32_t id,
                        std::string_view payload, std::string& out, const OnReply& on_reply) {
  switch (type) {
    case NGHTTP2_DATA:
      on_data(flags, id, payload, out, on_reply);
      return true;
    case NGHTTP2_HEADERS:
      if ((flags & NGHTTP2_FLAG_END_HEADERS) == 0) return give_up("a header block in pieces");
      return on_headers(flags, id, payload, on_reply);
    case NGHTTP2_RST_STREAM: {
      Stream& stream = place_of(id);
      if (stream.id == id) finish(stream, on_reply);
      return true;
    }
    case NGHTTP2_SETTINGS:
      return on_settings(flags, payload, out);
    case NGHTTP2_PING:
      if ((flags & NGHTTP2_FLAG_ACK) == 0)
        append_frame(out, NGHTTP2_PING, NGHTTP2_FLAG_ACK, 0, payload);
      return true;
    case NGHTTP2_WINDOW_UPDATE:
      if (payload.size() == 4 && id == 0) window_ += word_at(payload, 0) & 0x7fff'ffff;
      return true;
    case NGHTTP2_GOAWAY: {
      leaving_ = true;
      const std::uint32_t error = payload.size() >= 8 ? word_at(payload, 4) : 0;
      return error == 0 || give_up("GOAWAY with HTTP/2 error " + std::to_string(error));
    }
    default:
      return true;
  }
}

bool H2Caller::on_headers(std::uint8_t flags, std::uint32_t id, std::string_view block,
                          const OnReply& on_reply) {
  if ((flags & (NGHTTP2_FLAG_PADDED | NGHTTP2_FLAG_PRIORITY)) != 0) {
    return give_up("padded or prioritised headers");
  }
  Status status;
  if (!inflate(block, status)) return give_up("a header block that cannot be read");
  Stream& stream = place_of(id);
  if (stream.id != id) return true;
  if (status.http != 0) stream.http_status = status.http;
  if (status.grpc >= 0) stream.grpc_status = status.grpc;
  if ((flags & NGHTTP2_FLAG_END_STREAM) != 0) finish(stream, on_reply);
  return true;
}

// A block of nothing but indexed fields changes no table, so the same bytes mean the same again.
bool H2Caller::inflate(std::string_view block, Status& status) {
  for (const Known& known : known_) {
    if (block != known.block || block.empty()) continue;
    status = known.status;
    return true;
  }
  const bool indexed = std::all_of(block.begin(), block.end(),
                                   [](char c) { return static_cast<std::uint8_t>(c) >= 0x80; });
  std::string_view rest = block;
  for (;;) {
    nghttp2_nv field;
    int flags = 0;
    const auto taken =
        nghttp2_hd_inflate_hd2(inflater_, &field, &flags,
                               reinterpret_cast<const std::uint8_t*>(rest.data()), rest.size(), 1);
    if (taken < 0) return false;
    rest.remove_prefix(static_cast<std::size_t>(taken));
    if ((flags & NGHTTP2_HD_INFLATE_EMIT) != 0) {
      const std::string_view name(reinterpret_cast<const char*>(field.name), field.namelen);
      const std::string_view value(reinterpret_cast<const char*>(field.value), field.valuelen);
      if (name == ":status") status.http = number_of(value);
      if (name == "grpc-status") status.grpc = number_of(value);
    }
    if ((flags & NGHTTP2_HD_INFLATE_FINAL) != 0) break;
    if ((flags & NGHTTP2_HD_INFLATE_EMIT) == 0 && rest.empty()) break;
  }
  nghttp2_hd_inflate_end_headers(inflater_);
  if (indexed) {
    known_[next_known_] = {std::string(block), status};
    next_known_ = 1 - next_known_;
  } else {
    for (Known& known : known_) known.block.clear();  // the table may have moved
  }
  return true;
}

void H2Caller::on_data(std::uint8_t flags, std::uint32_t id, std::string_view bytes,
                       std::string& out, const OnReply& on_reply) {
  unacknowledged_ += bytes.size();
  if (unacknowledged_ >= kGiveBack) {
    std::string more;
    append_word(more, static_cast<std::uint32_t>(unacknowledged_));
    append_frame(out, NGHTTP2_WINDOW_UPDATE, 0, 0, more);
    unacknowledged_ = 0;
  }
  Stream& stream = place_of(id);
  if (stream.id != id) return;
  if ((flags & NGHTTP2_FLAG_PADDED) != 0 && !bytes.empty()) {
    const auto padding = static_cast<std::uint8_t>(bytes.front());
    bytes = bytes.substr(1, bytes.size() - 1 - std::min<std::size_t>(padding, bytes.size() - 1));
  }
  stream.body += bytes;
  if ((flags & NGHTTP2_FLAG_END_STREAM) != 0) finish(stream, on_reply);
}

bool H2Caller::on_settings(std::uint8_t flags, std::string_view payload, std::string& out) {
  if ((flags & NGHTTP2_FLAG_ACK) != 0) return true;
  for (; payload.size() >= 6; payload.remove_prefix(6)) {
    const std::uint32_t id = word_at(payload, 0) >> 16U;
    const std::uint32_t value = word_at(payload, 2);
    if (id == NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS) peer_max_ = value;
    if (id == NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE) stream_window_ = value;
  }
  append_frame(out, NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK, 0, "");
  return true;
}

void H2Caller::finish(Stream& stream, const OnReply& on_reply) {
  const CallReply reply{stream.tag, stream.http_status, stream.grpc_status, stream.body};
  stream.id = 0;
  --in_flight_;
  on_reply(reply);
}

bool H2Caller::give_up(std::string why) {
  fault_ = std::move(why);
  return false;
}

}  // namespace weir::drill
