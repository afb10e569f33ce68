#include "core/planning/scheduling/cluster.h"

#include <doctest/doctest.h>

#include "tests/error_of.h"

namespace estrain::scheduling {
namespace {

const Cluster kMixed({{"v100", 4}, {"v100", 4}, {"t4", 2}});

TEST_CASE("a cluster knows its types") {
  CHECK(kMixed.devices() == 10);
  CHECK(kMixed.types() == std::vector<std::string>{"v100", "t4"});
  CHECK(kMixed.devices_of_type(0) == 8);
  CHECK(kMixed.type_of(2) == 1);
  CHECK(packed(kMixed, 0, 6).hosts[0] == 2);
  CHECK(error_of([] { Cluster(std::vector<Host>()); }).fault() == Fault::infeasible);
  CHECK(error_of([] { Cluster(std::vector<Host>{{"a", 0}}); }).message().find("no devices") != std::string::npos);
}

TEST_CASE("devices come from the host with most free, the lowest on ties") {
  FreeDevices free(kMixed);
  CHECK(free.take_most_free(0, 2) == Placement{{0, 2}});
  CHECK(free.take_most_free(0, 5) == Placement{{1, 4}, {0, 1}});
  CHECK(free.take_most_free(0, 2).empty());  // one is left
  CHECK(free.of_type(0) == 1);
  CHECK(free.take_most_free(1, 2) == Placement{{2, 2}});
  CHECK(free.total() == 1);
}

TEST_CASE("packed devices fit tightly and stay on the hosts they were on") {
  FreeDevices free(kMixed);
  free.take({{1, 2}});
  CHECK(free.take_packed(0, 2) == Placement{{1, 2}});
  free.give({{1, 2}});
  CHECK(free.take_packed(0, 2, {{0, 1}}) == Placement{{0, 2}});
  CHECK(free.take_packed(0, 5).empty());
  CHECK(free.take_packed(0, 4) == Placement{{0, 2}, {1, 2}});
}

TEST_CASE("what is held twice is a bug") {
  FreeDevices free(kMixed);
  free.take({{0, 3}});
  CHECK(!free.holds({{0, 2}}));
  CHECK(error_of([&] { free.take({{0, 2}}); }).fault() == Fault::bug);
}

}  // namespace
}  // namespace estrain::scheduling
