#pragma once

#include <string>
#include <utility>

// Boost 1.74 needs <utility> before its headers.
#include <boost/asio/ip/tcp.hpp>

#include "weir/result.h"

// Internal to the proxy: addresses.
namespace weir::drill {

// The endpoint of host:port; of a name with both kinds of addresses, an IPv4 one.
//
// Errors:      invalid_argument (it is no host:port); unavailable (the name has no address).
Result<boost::asio::ip::tcp::endpoint> endpoint_of(const std::string& address);

// Where something can be connected to.
//
// Errors:      as above; port 0 is none.
Result<boost::asio::ip::tcp::endpoint> target_of(const std::string& address);

// Whether who connects to `target` meets what listens at `listen` on this machine.
bool leads_to(const boost::asio::ip::tcp::endpoint& target,
              const boost::asio::ip::tcp::endpoint& listen);

std::string text_of(const boost::asio::ip::tcp::endpoint& endpoint);

}  // namespace weir::drill
