#include "policy/address.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace weir::policy {
namespace {

std::string canonical(std::string_view text) {
  const auto address = Address::parse(text);
  return address ? address->text() : "none";
}

std::string hop(std::string_view text) {
  const auto address = Address::parse_hop(text);
  return address ? address->text() : "none";
}

std::string counted(std::string_view text, std::uint8_t prefix = 64) {
  const Address group = grouped(Address::parse(text).value(), prefix);
  return std::string(key_bytes(group));
}

std::string client(std::string_view peer, std::vector<std::string_view> forwarded,
                   std::vector<std::string_view> trusted = {"10.0.0.0/8"}) {
  std::vector<CidrBlock> blocks;
  for (const std::string_view block : trusted) blocks.push_back(parse_cidr(block).value());
  const auto address = client_address(peer, forwarded, blocks);
  return address ? address->text() : "none";
}

TEST(Address, HasOneSpelling) {
  EXPECT_EQ(canonical("192.0.2.7"), "192.0.2.7");
  EXPECT_EQ(canonical("::ffff:192.0.2.7"), "192.0.2.7");
  EXPECT_EQ(canonical("::FFFF:c000:207"), "192.0.2.7");
  EXPECT_EQ(canonical("2001:DB8:0:0::1"), "2001:db8::1");
  EXPECT_EQ(canonical("fe80::1%eth0"), "fe80::1");
}

TEST(Address, RefusesWhatIsNoAddress) {
  for (const std::string_view text :
       {"", "1.2.3", "1.2.3.4.5", "256.1.1.1", "01.2.3.4", "1.2.3.4 ", " 1.2.3.4", "1.2.3.4:80",
        "1..2.3", "a.b.c.d", "1.2.3.-4", "[::1]", ":::", "::1::", "12345::", "1:2:3:4:5:6:7:8:9",
        "0x7f.1.1.1", "1.2.3.4%eth0", "::1/64"})
    EXPECT_EQ(canonical(text), "none") << text;
  EXPECT_EQ(canonical(std::string_view("::1\0::2", 7)), "none");
}

TEST(Address, ReadsHopsAsProxiesWriteThem) {
  EXPECT_EQ(hop("1.2.3.4:99"), "1.2.3.4");
  EXPECT_EQ(hop("[::1]:5"), "::1");
  EXPECT_EQ(hop("[2001:db8::1]"), "2001:db8::1");
  EXPECT_EQ(hop(" \"1.2.3.4\" "), "1.2.3.4");
  EXPECT_EQ(hop("\"[2001:db8::1]:4711\""), "2001:db8::1");
  EXPECT_EQ(hop("2001:db8::1"), "2001:db8::1");
  for (const std::string_view text : {"unknown", "_hidden", "1.2.3.4:", "1.2.3.4:port",
                                      "1.2.3.4:123456", "[1.2.3.4]", "[::1", "[::1]5", "\"", ""})
    EXPECT_EQ(hop(text), "none") << text;
}

TEST(Address, GroupsIpv6ByPrefixAndIpv4NotAtAll) {
  EXPECT_EQ(counted("2001:db8::1"), counted("2001:db8::ffff"));
  EXPECT_NE(counted("2001:db8::1"), counted("2001:db8:0:1::1"));
  EXPECT_EQ(counted("::ffff:1.2.3.4"), counted("1.2.3.4"));
  EXPECT_NE(counted("1.2.3.4"), counted("1.2.3.5"));
  EXPECT_EQ(counted("2001:db8:0:40::1", 58), counted("2001:db8:0:7f::1", 58));
  EXPECT_NE(counted("2001:db8:0:40::1", 58), counted("2001:db8:0:80::1", 58));
  EXPECT_NE(counted("2001:db8::1", 128), counted("2001:db8::2", 128));
}

TEST(CidrBlock, HoldsWhatStandsUnderItsPrefix) {
  const CidrBlock ten = parse_cidr("10.0.0.0/8").value();
  EXPECT_TRUE(contains(ten, Address::parse("10.255.0.1").value()));
  EXPECT_TRUE(contains(ten, Address::parse("::ffff:10.1.1.1").value()));
  EXPECT_FALSE(contains(ten, Address::parse("11.0.0.1").value()));
  EXPECT_FALSE(contains(ten, Address::parse("::10.0.0.1").value()));
  const CidrBlock odd = parse_cidr("192.0.2.128/25").value();
  EXPECT_TRUE(contains(odd, Address::parse("192.0.2.128").value()));
  EXPECT_FALSE(contains(odd, Address::parse("192.0.2.127").value()));
  const CidrBlock all = parse_cidr("0.0.0.0/0").value();
  EXPECT_TRUE(contains(all, Address::parse("1.2.3.4").value()));
  EXPECT_FALSE(contains(all, Address::parse("::1").value()));
}

TEST(CidrBlock, RefusesBitsBehindThePrefixAndNamesTheBlockMeant) {
  EXPECT_FALSE(parse_cidr("10.0.0.1/8"));
  EXPECT_EQ(to_text(network_of("10.0.0.1/8").value()), "10.0.0.0/8");
  EXPECT_FALSE(parse_cidr("2001:db8::1/32"));
  EXPECT_EQ(to_text(network_of("2001:db8::1/32").value()), "2001:db8::/32");
  for (const std::string_view text :
       {"10.0.0.0/33", "10.0.0.0/", "10.0.0.0/08", "10.0.0.0/-1", "::/129", "/8", "10/8", ""})
    EXPECT_FALSE(network_of(text)) << text;
}

TEST(CidrBlock, SaysWhatItWasReadFrom) {
  for (const std::string_view text :
       {"10.0.0.0/8", "192.0.2.7", "2001:db8::/32", "::/0", "0.0.0.0/0", "::1"})
    EXPECT_EQ(to_text(parse_cidr(text).value()), text);
}

// A limiter that takes the leftmost address, or a header of a peer that is no proxy, gives a fresh
// counter to whoever changes the header.
TEST(ClientAddress, WalksFromTheRightToTheFirstUntrusted) {
  EXPECT_EQ(client("10.0.0.1", {"1.1.1.1, 2.2.2.2"}), "2.2.2.2");
  EXPECT_EQ(client("10.0.0.1", {"6.6.6.6, 10.0.0.5"}), "6.6.6.6");
  EXPECT_EQ(client("10.0.0.1", {"1.1.1.1", "2.2.2.2", "10.0.0.9"}), "2.2.2.2");
  EXPECT_EQ(client("10.0.0.1:4711", {"1.1.1.1,2.2.2.2"}), "2.2.2.2");
}

TEST(ClientAddress, IsThePeerWhereThePeerIsNoProxy) {
  EXPECT_EQ(client("9.9.9.9", {"1.1.1.1"}), "9.9.9.9");
  EXPECT_EQ(client("9.9.9.9", {}), "9.9.9.9");
  EXPECT_EQ(client("10.0.0.1", {}), "10.0.0.1");
  EXPECT_EQ(client("10.0.0.1", {"1.1.1.1"}, {}), "10.0.0.1");
}

TEST(ClientAddress, StopsAtTheLastGoodHopBeforeGarbage) {
  EXPECT_EQ(client("10.0.0.1", {"garbage"}), "10.0.0.1");
  EXPECT_EQ(client("10.0.0.1", {"1.1.1.1, garbage"}), "10.0.0.1");
  EXPECT_EQ(client("10.0.0.1", {"1.1.1.1, garbage, 10.0.0.5"}), "10.0.0.5");
  EXPECT_EQ(client("10.0.0.1", {"unknown, 10.0.0.5"}), "10.0.0.5");
}

TEST(ClientAddress, TakesPortsQuotesAndEmptyItems) {
  EXPECT_EQ(client("10.0.0.1", {"1.2.3.4:99"}), "1.2.3.4");
  EXPECT_EQ(client("10.0.0.1", {"\"[2001:db8::7]:5\""}), "2001:db8::7");
  EXPECT_EQ(client("10.0.0.1", {"1.1.1.1, , 2.2.2.2,,", ""}), "2.2.2.2");
  EXPECT_EQ(client("[::ffff:10.0.0.1]:80", {"1.1.1.1"}), "1.1.1.1");
}

TEST(ClientAddress, IsTheLeftmostWhereAllAreTrusted) {
  EXPECT_EQ(client("10.0.0.1", {"10.0.0.3, 10.0.0.2"}), "10.0.0.3");
}

TEST(ClientAddress, WalksNoFurtherThanItsBound) {
  std::string header = "6.6.6.6";
  for (int i = 0; i < 1'000; ++i) header += ", 10.0.0.2";
  ASSERT_GT(header.size(), 10'000u);
  EXPECT_EQ(client("10.0.0.1", {header}), "10.0.0.2");
}

TEST(ClientAddress, IsAbsentWithoutAPeer) {
  EXPECT_EQ(client("", {"1.1.1.1"}), "none");
}

}  // namespace
}  // namespace weir::policy
