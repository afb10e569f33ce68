#include "core/run/decisions/state/state.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "../job_at_work.h"
#include "core/base/json/codec.h"

namespace estrain::decisions {
namespace {

// A state in which every field that a handover keeps differs from its default.
RunState busy_state() {
  RunState state = JobAtWork().state;
  state.retries = 5;
  state.host = "a";
  state.from_step = 3;
  state.stage = 7;
  state.leaving = {{.id = WorkerId(9), .device = {"cpu:sse"}, .left = true}};
  state.workers_started = 11;
  state.gpus_exchange = true;
  state.exchanges_asked = 5;
  state.scribe.last_saved_step = 40;
  state.resize.emplace().why = "user";
  state.waiting.emplace_back().client = 4;
  state.recovery.emplace().cause = "killed";
  state.fault_step = Step(41);
  state.faults_at_step = 2;
  state.less_memory = true;
  state.faults.emplace_back().cause = "killed";
  return state;
}

TEST_CASE("a handover keeps the fields that it writes down, and begins the rest anew") {
  RunState state = busy_state();
  state.phase = RunPhase::pausing;
  state.pending.emplace().why = "user";
  state.stop_reason = "SIGTERM";
  state.stop_clients = {1};
  state.stalled_at = 12;
  state.failure = Error(Fault::io, "no more");
  state.scribe.told_to_finish = true;
  const RunState next = after_handover(state);
  CHECK(codec::fields_of(next) == codec::fields_of(state));
  const Json fresh = codec::fields_of(RunState());
  for (const auto& [key, value] : fresh.items()) {
    CAPTURE(key);
    CHECK(codec::fields_of(state).at(key) != value);
  }
  CHECK(next.phase == RunPhase::training);
  CHECK_FALSE(next.pending);
  CHECK(next.stop_reason.empty());
  CHECK(next.stop_clients.empty());
  CHECK(next.stalled_at == -1);
  CHECK_FALSE(next.failure);
  CHECK_FALSE(next.scribe.told_to_finish);
}

TEST_CASE("after a handover all workers are ready and ranked in order") {
  RunState state = busy_state();
  for (Member& member : state.workers)
    member = {.id = member.id, .device = member.device, .ests = member.ests, .left = true};
  const RunState next = after_handover(state);
  for (size_t rank = 0; rank < next.workers.size(); ++rank) {
    CHECK(next.workers[rank].ready);
    CHECK_FALSE(next.workers[rank].left);
    CHECK(next.workers[rank].rank == static_cast<int64_t>(rank));
  }
  CHECK_FALSE(next.leaving.at(0).left);
}

TEST_CASE("members are found in all lists; places without a worker are none") {
  RunState state = JobAtWork().state;
  state.leaving = {{.id = WorkerId(5), .device = {"cpu"}}};
  state.pending.emplace().added = {{.id = WorkerId(6), .device = {"cpu"}}};
  state.workers.push_back({.device = {"cpu"}});
  CHECK(all_members(state).size() == 4);
  for (const int64_t id : {0, 1, 5, 6}) {
    CAPTURE(id);
    REQUIRE(find_member(state, WorkerId(id)) != nullptr);
    CHECK(find_member(state, WorkerId(id))->id == WorkerId(id));
    CHECK(is_leaving(state, WorkerId(id)) == (id == 5));
  }
  CHECK(find_member(state, WorkerId(7)) == nullptr);
}

TEST_CASE("all have left when the last of them has") {
  RunState state = JobAtWork().state;
  state.workers[0].left = true;
  CHECK_FALSE(all_left(state));
  state.workers[1].left = true;
  CHECK(all_left(state));
}

TEST_CASE("a change can begin while the job trains undisturbed, and otherwise is told why not") {
  const JobAtWork job;
  CHECK_FALSE(why_not_now(job.state, job.now));
  const auto told = [&](auto&& disturb) {
    RunState state = job.state;
    Moment now = job.now;
    disturb(state, now);
    const std::optional<Error> why = why_not_now(state, now);
    return why ? why->message() : "";
  };
  CHECK(told([](RunState& state, Moment&) { state.ending = RunEnding::stopped; }) == "the job is ending");
  CHECK(told([](RunState& state, Moment&) { state.phase = RunPhase::over; }) == "the job is ending");
  CHECK(told([](RunState& state, Moment&) { state.phase = RunPhase::starting; }) == "the job is still starting");
  CHECK(told([](RunState& state, Moment&) { state.phase = RunPhase::recovering; }) ==
        "the job is recovering from a fault");
  CHECK(told([](RunState& state, Moment&) { state.phase = RunPhase::warming; }) == "another resize is under way");
  CHECK(told([](RunState& state, Moment&) { state.phase = RunPhase::pausing; }) == "another resize is under way");
  CHECK(told([](RunState& state, Moment&) { state.resize = ResizeUnderWay{}; }) == "another resize is under way");
  CHECK(told([](RunState&, Moment& now) { now.no_room = "disk full"; }) ==
        "the job waits for room on the disk: disk full");
}

TEST_CASE("devices in force have the workers' numbers of ESTs") {
  const Assignment devices = devices_in_force(JobAtWork().state);
  REQUIRE(devices.size() == 2);
  CHECK(devices[0].device.text() == "cpu");
  CHECK(devices[0].ests == 2);
  CHECK(devices[1].ests == 2);
}

TEST_CASE("a worker is found wherever it stands in a list") {
  std::vector<Member> list;
  for (const int64_t id : {3, 4, 9, 5, 6, 12, 7}) list.emplace_back().id = WorkerId(id);
  for (size_t i = 0; i < list.size(); ++i) CHECK(index_of(list, list[i].id) == i);
  for (const int64_t id : {-1, 0, 8, 13}) CHECK(index_of(list, WorkerId(id)) == list.size());
  CHECK(index_of({}, WorkerId(1)) == 0);
}

TEST_CASE("all workers have left when each has, in whatever order, stage after stage") {
  std::mt19937_64 random(1);
  RunState state;
  for (int64_t id = 0; id < 20; ++id) state.workers.emplace_back().id = WorkerId(id);
  for (int stage = 0; stage < 20; ++stage) {
    std::vector<size_t> order(state.workers.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::shuffle(order, random);
    for (const size_t i : order) {
      CHECK_FALSE(all_left(state));
      state.workers[i].left = true;
    }
    CHECK(all_left(state));
    state.workers.erase(state.workers.begin());  // the next stage has a worker less, or begins anew
    if (state.workers.size() < 3) break;
    CHECK(all_left(state));
    for (Member& worker : state.workers) worker.left = false;
  }
}

}  // namespace
}  // namespace estrain::decisions
