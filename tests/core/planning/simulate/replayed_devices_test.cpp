#include <doctest/doctest.h>

#include "core/planning/simulate/replayed.h"

namespace estrain::simulate {
namespace {

using dispatch::PoolTrace;
using dispatch::Slot;
using Names = std::vector<std::string>;

TEST_CASE("what joins and leaves is due once, in order of time") {
  PoolTrace trace;
  trace.added = {{3, {"a/cpu"}}, {1, {"b/cpu"}}};
  trace.lost = {{2, "b"}};
  trace.removed = {{9, {}, {"a/cpu"}}};
  ReplayedDevices devices(trace);
  CHECK(devices.due(0.5).empty());
  const std::vector<DeviceChange> due = devices.due(3);
  REQUIRE(due.size() == 3);
  CHECK(std::get<dispatch::Added>(due[0]).devices == Names{"b/cpu"});
  CHECK(std::get<dispatch::HostGone>(due[1]).host == "b");
  CHECK(std::get<dispatch::Added>(due[2]).devices == Names{"a/cpu"});
  CHECK(devices.due(3).empty());
  CHECK(devices.due(9).size() == 1);
}

TEST_CASE("a device that is away when it is to be removed leaves once it is back; with its host it is forgotten") {
  PoolTrace trace;
  ReplayedDevices devices(trace);
  devices.remove({1, 2.0, {"a/cpu", "a/cpu"}});
  std::vector<Slot> slots = {{1, "a/cpu", Slot::State::away}, {2, "a/cpu"}};
  auto removals = devices.removals(slots);
  REQUIRE(removals.size() == 1);
  CHECK(removals[0].names == Names{"a/cpu"});
  CHECK(removals[0].within == 2);
  CHECK(removals[0].for_good);
  slots.pop_back();
  CHECK(devices.removals(slots).empty());
  slots[0].state = Slot::State::present;
  CHECK(devices.removals(slots).size() == 1);
  CHECK(devices.removals(slots).empty());
  devices.remove({3, {}, {"a/cpu"}});
  devices.lose("a");
  CHECK(devices.removals(slots).empty());
}

TEST_CASE("devices that are taken at one moment are asked for together, by their names where those are known") {
  PoolTrace trace;
  trace.taken = {{1, 5, 2.0, "b/cpu"}, {1, 6, 2.0, ""}, {2, 7, {}, ""}, {2, 8, {}, ""}};
  ReplayedDevices devices(trace);
  std::vector<Slot> slots = {{1, "a/cpu"}, {2, "b/cpu"}, {3, "a/cpu"}};
  CHECK(devices.taken(slots, 0.5).empty());
  const auto taken = devices.taken(slots, 2);
  REQUIRE(taken.size() == 2);
  CHECK(taken[0].names == Names{"b/cpu", "a/cpu"});
  CHECK(taken[0].within == 2);
  CHECK(taken[1].names == Names{"a/cpu"});  // the pool has no more
  CHECK(taken[1].within == std::nullopt);
  CHECK_FALSE(taken[0].for_good);
  CHECK(devices.taken(slots, 9).empty());
  CHECK(devices.lent(slots, 9).empty());  // none is away
  for (Slot& slot : slots) slot.state = Slot::State::away;
  CHECK(devices.lent(slots, 5) == Names{"b/cpu"});
  devices.lose("a");
  CHECK(devices.lent(slots, 9).empty());
}

}  // namespace
}  // namespace estrain::simulate
