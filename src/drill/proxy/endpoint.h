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

std::string text_of(const boost::asio::ip::tcp::endpoint& endpoint);

}  // namespace weir::drill
