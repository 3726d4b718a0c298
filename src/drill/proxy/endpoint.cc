#include "drill/proxy/endpoint.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/udp.hpp>

namespace weir::drill {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

Result<tcp::endpoint> endpoint_of(const std::string& address) {
  const auto bad = [&address] {
    return Error{ErrorCode::invalid_argument, "'" + address + "' is no host:port"};
  };
  const std::size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0) return bad();
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  std::uint16_t port = 0;
  const char* const end = address.data() + address.size();
  const auto read = std::from_chars(address.data() + colon + 1, end, port);
  if (read.ec != std::errc() || read.ptr != end) return bad();
  error_code error;
  const auto numeric = asio::ip::make_address(host, error);
  if (!error) return tcp::endpoint(numeric, port);
  asio::io_context io;
  tcp::resolver resolver(io);
  const auto found = resolver.resolve(host, std::to_string(port), error);
  if (error || found.empty()) {
    return Error{ErrorCode::unavailable, address + ": " + error.message()};
  }
  const auto old = std::find_if(found.begin(), found.end(),
                                [](const auto& each) { return each.endpoint().address().is_v4(); });
  return (old == found.end() ? *found.begin() : *old).endpoint();
}

Result<tcp::endpoint> target_of(const std::string& address) {
  auto endpoint = endpoint_of(address);
  if (endpoint && endpoint->port() == 0) {
    return Error{ErrorCode::invalid_argument,
                 "'" + address + "' has port 0, where nobody can be reached; allowed: 1 to 65535"};
  }
  return endpoint;
}

bool leads_to(const tcp::endpoint& target, const tcp::endpoint& listen) {
  if (target.port() != listen.port()) return false;
  if (target.address() == listen.address()) return true;
  // Connecting to no address in particular means this machine.
  if (target.address().is_unspecified()) return listen.address().is_loopback();
  if (!listen.address().is_unspecified()) return false;
  if (target.address().is_loopback()) return true;
  // Only an address of this machine can be had here.
  asio::io_context io;
  asio::ip::udp::socket probe(io);
  error_code error;
  probe.open(target.address().is_v4() ? asio::ip::udp::v4() : asio::ip::udp::v6(), error);
  if (!error) probe.bind({target.address(), 0}, error);
  return !error;
}

std::string text_of(const tcp::endpoint& endpoint) {
  const std::string host = endpoint.address().to_string();
  return (endpoint.address().is_v6() ? "[" + host + "]" : host) + ":" +
         std::to_string(endpoint.port());
}

}  // namespace weir::drill
