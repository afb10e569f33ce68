#include "core/pool/daemon/own_devices.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace estrain::pool {
namespace {

using dispatch::Slot;
using Names = std::vector<std::string>;

// The names of the devices that stay, once the pool's were made those of the list.
Names settled(const std::vector<Slot>& slots, const Names& list) {
  dispatch::State state;
  state.policy = "estrain";
  state.slots = slots;
  state.last_slot = std::ssize(slots);
  PoolDispatcher dispatcher(state, {}, 100);
  settle_devices(dispatcher, list, 100);
  Names names;
  for (const Slot& slot : dispatcher.state().slots) {
    if (!slot.for_good) names.push_back(slot.name);
  }
  std::ranges::sort(names);
  return names;
}

TEST_CASE("what the list has more is added, and what it has less leaves") {
  const std::vector<Slot> two = {{1, "cpu"}, {2, "cpu"}};
  CHECK(settled(two, {"cpu", "cpu"}) == Names{"cpu", "cpu"});
  CHECK(settled(two, {"cpu", "cpu", "cpu"}) == Names{"cpu", "cpu", "cpu"});
  CHECK(settled(two, {"cpu"}) == Names{"cpu"});
  CHECK(settled(two, {"cpu:avx2", "cpu"}) == Names{"cpu", "cpu:avx2"});
  CHECK(settled(two, {}) == Names{});
}

TEST_CASE("devices of other hosts are not the list's") {
  CHECK(settled({{1, "cpu"}, {2, "nodeB/cpu"}}, {}) == Names{"nodeB/cpu"});
  CHECK(settled({{1, "nodeB/cpu"}}, {"cpu"}) == Names{"cpu", "nodeB/cpu"});
}

TEST_CASE("a device that is away or leaves for a while is there; one that leaves for good is not") {
  CHECK(settled({{1, "cpu", Slot::State::leaving, false, 1}}, {"cpu"}) == Names{"cpu"});
  CHECK(settled({{1, "cpu", Slot::State::leaving, true, 1}}, {"cpu"}) == Names{"cpu"});
  CHECK(settled({{1, "cpu", Slot::State::leaving, true, 1}}, {}) == Names{});
  CHECK(settled({{1, "cpu", Slot::State::away}, {2, "cpu"}}, {"cpu", "cpu"}) == Names{"cpu", "cpu"});
}

TEST_CASE("devices that leave have time: no job is killed for them") {
  dispatch::State state;
  state.policy = "fifo";
  state.slots = {{1, "cpu", Slot::State::present, false, 1}, {2, "cpu", Slot::State::present, false, 1}};
  dispatch::Job& job = state.jobs[1];
  job.id = 1;
  job.phase = dispatch::Phase::running;
  job.target = {{"cpu", 2}};
  job.request.ests = job.request.most = job.request.devices = 2;
  PoolDispatcher dispatcher(state, {}, 100);
  settle_devices(dispatcher, {"cpu"}, 100);
  dispatcher.tell(dispatch::TimePassed{}, 105);
  const auto actions = dispatcher.take_actions();
  const auto count = [&](auto is) { return std::ranges::count_if(actions, is); };
  CHECK(count([](const dispatch::Action& one) { return std::holds_alternative<dispatch::ShrinkJob>(one); }) == 1);
  CHECK(count([](const dispatch::Action& one) { return std::holds_alternative<dispatch::KillJob>(one); }) == 0);
}

}  // namespace
}  // namespace estrain::pool
