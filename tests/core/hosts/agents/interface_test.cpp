#include "core/hosts/agents/interface.h"

#include <doctest/doctest.h>
#include <net/if.h>

#include <string>

#include "core/base/error.h"

namespace estrain::hosts {
namespace {

TEST_CASE("an interface's address; an unknown one is told with those that there are") {
  CHECK(address_of_interface("lo") == "127.0.0.1");
  CHECK_THROWS_WITH_AS(address_of_interface("eth99"), doctest::Contains("no network interface eth99"), Error);
  try {
    address_of_interface("eth99");
  } catch (const Error& error) {
    CHECK(error.advice().find("lo") != std::string::npos);
  }
}

TEST_CASE("the address by which packets leave is that of the way there") {
  CHECK(address_toward({"127.0.0.1", 7000}) == "127.0.0.1");
  CHECK(address_toward({"127.0.0.9", 1}) == "127.0.0.1");
  CHECK_THROWS_WITH_AS(address_toward({"nodeB", 1}), doctest::Contains("no address"), Error);
}

TEST_CASE("a link-local address names the interface of its link, by name or number") {
  const unsigned lo = ::if_nametoindex("lo");
  for (const std::string& scope : {std::string("lo"), std::to_string(lo)}) {
    CAPTURE(scope);
    CHECK(scope_of("fe80::1%" + scope) == lo);
  }
  CHECK(scope_of("fd00::1") == 0);
  CHECK_THROWS_WITH_AS(address_toward({"fe80::1", 7000}), doctest::Contains("without the interface"), Error);
  CHECK_THROWS_WITH_AS(address_toward({"fe80::1%no-such", 7000}), doctest::Contains("no interface no-such"), Error);
}

TEST_CASE("addresses of other hosts are numbers with a port") {
  for (const char* text : {"10.0.0.2:7000", "[fd00::2]:1", "127.0.0.1:65535", "[fe80::2%lo]:7000", "[fe80::2%1]:7000"})
    CHECK_NOTHROW(net::parse_address(text));
  for (const char* text : {"", ":", ":7000", "localhost:7000", "10.0.0.2", "10.0.0.2:", "10.0.0.2:0", "10.0.0.2:70000",
                           "10.0.0.2:7a", "fd00::2:1", "[fd00::2]", "10.0.0:7000", "[fe80::2%]:7000",
                           "[fe80::2%a/b]:7000", "[fe80::2%no-such-interface-here]:7000", "10.0.0.2%lo:7000"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(net::parse_address(text), Error);
  }
}

TEST_CASE("where to listen: an address, a port, an interface") {
  CHECK(listening_address("127.0.0.3", "", "--x").text() == "127.0.0.3:0");
  CHECK(listening_address("127.0.0.3:70", "", "--x").text() == "127.0.0.3:70");
  CHECK(listening_address("", "lo", "--x").text() == "127.0.0.1:0");
  CHECK(listening_address(":70", "lo", "--x").text() == "127.0.0.1:70");
  CHECK(listening_address("::1", "", "--x").text() == "[::1]:0");
  CHECK(listening_address("[::1]:70", "", "--x").text() == "[::1]:70");
  CHECK(listening_address("localhost:70", "", "--x").port == 70);
  CHECK_THROWS_AS(listening_address("10.0.0.1:x", "", "--x"), Error);
  CHECK_THROWS_WITH_AS(listening_address("nobody.invalid", "", "--x"),
                       doctest::Contains("nobody.invalid leads nowhere"), Error);
}

}  // namespace
}  // namespace estrain::hosts
