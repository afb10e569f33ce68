#include "core/hosts/agents/interface.h"

#include <doctest/doctest.h>

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
