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

}  // namespace
}  // namespace estrain::hosts
