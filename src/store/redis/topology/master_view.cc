#include "store/redis/topology/master_view.h"

namespace weir::store::redis {
namespace {

std::optional<std::uint64_t> number_in(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool all_strings(const Reply& reply, std::size_t count) {
  if (!reply.is_flat_array(count)) return false;
  for (std::size_t i = 0; i < count; ++i) {
    if (reply.at(i).type != ReplyType::string) return false;
  }
  return true;
}

}  // namespace

std::optional<std::uint64_t> read_config_epoch(const Reply& reply) {
  const std::size_t count = reply.root().elements;
  if (reply.root().type != ReplyType::array || count % 2 != 0 || !all_strings(reply, count)) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < count; i += 2) {
    if (reply.text(reply.at(i)) == "config-epoch") return number_in(reply.text(reply.at(i + 1)));
  }
  return std::nullopt;
}

std::optional<HostPort> read_master_address(const Reply& reply) {
  if (!all_strings(reply, 2)) return std::nullopt;
  const std::string_view host = reply.text(reply.at(0));
  const auto port = port_in(reply.text(reply.at(1)));
  if (host.empty() || !port) return std::nullopt;
  return HostPort{std::string(host), *port};
}

// "message", channel, "NAME OLD-HOST OLD-PORT NEW-HOST NEW-PORT"
bool tells_of_switch(const Reply& message, std::string_view master) {
  if (!all_strings(message, 3)) return false;
  if (message.text(message.at(0)) != "message") return false;
  if (message.text(message.at(1)) != "+switch-master") return false;
  const std::string_view text = message.text(message.at(2));
  return text.starts_with(master) && text.size() > master.size() && text[master.size()] == ' ';
}

}  // namespace weir::store::redis
