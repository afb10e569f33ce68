// Jobs and the memory of GPUs, by rules in virtual time.

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>

#include "core/planning/dispatch/turn.h"
#include "tests/at_length.h"
#include "tests/core/planning/dispatch/fake_world.h"

namespace estrain::dispatch {
namespace {

std::vector<double> in_bytes(std::vector<double> gib) {
  for (double& one : gib) one *= kGiB;
  return gib;
}

// GiB of each of n GPUs, at n - 1.
FakeWorld::FakeMemory of_gpus(const std::vector<double>& told, const std::vector<double>& taken) {
  FakeWorld::FakeMemory memory;
  memory.gpus_told = in_bytes(told);
  memory.gpus_taken = in_bytes(taken);
  return memory;
}
FakeWorld::FakeMemory of_gpus(const std::vector<double>& needs) { return of_gpus(needs, needs); }

JobId submit_to_gpus(FakeWorld& world, const FakeWorld::FakeMemory& memory, int64_t ests = 1, int64_t steps = 100'000,
                     double mini_batch = 0.1) {
  world.memory_of_next = memory;
  Request request;
  request.type = "cuda";
  return world.submit(ests, steps, mini_batch, request);
}

// GPUs by name, with their GiB.
using Gpus = std::map<std::string, double>;

FakeWorld world_of(const std::string& policy, const Gpus& gpus, FakeOptions options = {}) {
  std::vector<std::string> names;
  for (const auto& [name, gib] : gpus) {
    names.push_back(name);
    options.gpu_memory[name] = gib * kGiB;
  }
  FakeWorld world(policy, 0, options);
  world.tell(DevicesAdded{names});
  return world;
}

TEST_CASE("a job goes to a GPU that holds it, by policies that do not know memory") {
  for (const std::string policy : {"fifo", "srtf", "estrain", "easyscale-homo"}) {
    CAPTURE(policy);
    FakeWorld world = world_of(policy, {{"a/cuda:0", 16}, {"b/cuda:0", 80}});
    const JobId large = submit_to_gpus(world, of_gpus({20})), small = submit_to_gpus(world, of_gpus({10}));
    CHECK(names_of(world.state(), large) == std::vector<std::string>{"b/cuda:0"});
    CHECK(names_of(world.state(), small) == std::vector<std::string>{"a/cuda:0"});
    world.run(20);
    CHECK(world.full_gpus == 0);
  }
}

TEST_CASE("a job that no GPU of the pool holds waits, says so, and delays no job; where such a GPU comes it starts") {
  FakeWorld world = world_of("fifo", {{"a/cuda:0", 16}});
  const JobId large = submit_to_gpus(world, of_gpus({20})), small = submit_to_gpus(world, of_gpus({10}), 1, 20);
  CHECK(world.job(large).reason == "waits for memory: it needs 20.0 GiB on 1 GPU, and a GPU of a/cuda has 16.0 GiB");
  world.run(20);
  CHECK(world.times_of(large, "waits").size() == 1);
  CHECK(world.job(large).phase == Phase::waiting);
  CHECK(world.job(small).phase == Phase::done);
  world.tell(MemoryKnown{"b", 0, {{"cuda:0", 24 * kGiB}}});
  world.tell(DevicesAdded{{"b/cuda:0"}});
  world.run(11);
  CHECK(names_of(world.state(), large) == std::vector<std::string>{"b/cuda:0"});
}

TEST_CASE("a job whose GPU is another's says which GPUs it waits for") {
  FakeWorld world = world_of("fifo", {{"a/cuda:0", 16}, {"b/cuda:0", 80}});
  submit_to_gpus(world, of_gpus({40}));
  const JobId next = submit_to_gpus(world, of_gpus({20}));
  CHECK(world.job(next).reason ==
        "waits for memory: it needs 20.0 GiB on 1 GPU, and of b/cuda, with 80.0 GiB on each, not so many are free");
}

TEST_CASE("memory of GPUs that is not known, or the need of a job, holds nobody up") {
  FakeWorld blind("fifo", 0);
  blind.tell(DevicesAdded{{"a/cuda:0", "a/cuda:1"}});
  CHECK(blind.job(submit_to_gpus(blind, of_gpus({1000}))).phase == Phase::starting);
  FakeWorld known = world_of("fifo", {{"a/cuda:0", 1}, {"a/cuda:1", 1}});
  CHECK(known.job(submit_to_gpus(known, {})).phase == Phase::starting);
  CHECK(known.job(submit_to_gpus(known, of_gpus({0, 1000}))).phase == Phase::starting);
}

TEST_CASE("a job that one GPU does not hold gets the fewest of a host that do, whatever the policy means to give") {
  for (const std::string policy : {"fifo", "srtf", "estrain", "optimus", "easyscale-homo"}) {
    CAPTURE(policy);
    FakeWorld world = world_of(policy, {{"a/cuda:0", 16}, {"a/cuda:1", 16}, {"a/cuda:2", 16}, {"a/cuda:3", 16}});
    const JobId id = submit_to_gpus(world, of_gpus({30, 16, 11, 9}), 4);
    world.run(60);
    CHECK(world.job(id).phase == Phase::running);
    CHECK(held_in_all(world.state(), id) >= 2);
    CHECK(world.full_gpus == 0);
  }
}

TEST_CASE("a job that has to give a GPU back stops where the rest do not hold it, in time, and resumes with enough") {
  FakeWorld world = world_of("fifo", {{"a/cuda:0", 16}, {"a/cuda:1", 16}});
  const JobId id = submit_to_gpus(world, of_gpus({30, 15}), 2);
  world.run(10);
  REQUIRE(held_in_all(world.state(), id) == 2);
  world.take({"a/cuda:1"}, 5, 1);
  world.run(6);
  CHECK(world.released.size() == 1);
  CHECK(world.job(id).phase == Phase::waiting);
  CHECK(world.job(id).reason == "waits for memory: it needs 30.0 GiB on 1 GPU, and a GPU of a/cuda has 16.0 GiB");
  world.lend({"a/cuda:1"});
  world.run(15);
  CHECK(world.job(id).phase == Phase::running);
  CHECK(held_in_all(world.state(), id) == 2);
  CHECK(world.times_of(id, "shrinks").empty());
  CHECK(world.full_gpus == 0);
}

TEST_CASE("a job that comes leaves a running job the GPUs that hold it") {
  for (const std::string policy : {"estrain", "optimus", "easyscale-homo"}) {
    CAPTURE(policy);
    FakeWorld world = world_of(policy, {{"a/cuda:0", 16}, {"a/cuda:1", 16}, {"a/cuda:2", 16}});
    const JobId wide = submit_to_gpus(world, of_gpus({30, 15, 11}), 4);
    world.run(60);
    REQUIRE(held_in_all(world.state(), wide) >= 2);
    submit_to_gpus(world, of_gpus({5}), 4, 300);
    for (int i = 0; i < 60; ++i) {
      world.run(1);
      if (world.job(wide).phase == Phase::running) CHECK(held_in_all(world.state(), wide) >= 2);
    }
    CHECK(world.full_gpus == 0);
  }
}

TEST_CASE("of types that the pool may choose, a job gets none whose GPUs do not hold it") {
  FakeWorld world(
      "estrain", 1,
      {.speeds = {{"cpu", 1}, {"cuda", 10}}, .has_profiles = true, .gpu_memory = {{"a/cuda:0", 16 * kGiB}}});
  world.tell(DevicesAdded{{"a/cuda:0"}});
  world.memory_of_next = of_gpus({20});
  const JobId large = world.submit(1, 100'000, 0.1);
  world.memory_of_next = of_gpus({10});
  const JobId small = world.submit(1, 100'000, 0.1);
  CHECK(names_of(world.state(), large) == std::vector<std::string>{"cpu"});
  CHECK(names_of(world.state(), small) == std::vector<std::string>{"a/cuda:0"});
}

TEST_CASE("a full GPU doubles the need, and the job is tried again on GPUs with more memory") {
  FakeWorld world = world_of("fifo", {{"a/cuda:0", 16}, {"b/cuda:0", 80}, {"b/cuda:1", 80}});
  const JobId id = submit_to_gpus(world, of_gpus({10}, {20}));
  REQUIRE(names_of(world.state(), id) == std::vector<std::string>{"a/cuda:0"});
  world.run(30);
  CHECK(world.full_gpus == 1);
  CHECK(world.job(id).memory.gpu_ratio == 2);
  CHECK(names_of(world.state(), id) == std::vector<std::string>{"b/cuda:0"});
  CHECK(world.job(id).phase == Phase::running);
  const auto note = std::ranges::find(world.notes, "memory", &FakeWorld::Noted::what);
  REQUIRE(note != world.notes.end());
  CHECK(note->reason ==
        "memory of a GPU was lacking: it counts for 20.0 GiB on 1 GPU from now on, not 10.0 GiB on 1 GPU");
}

TEST_CASE("a full GPU that no other can replace is tried a few times, and one of unknown memory not at all") {
  FakeWorld world = world_of("fifo", {{"a/cuda:0", 16}}), blind("fifo", 0);
  const JobId id = submit_to_gpus(world, of_gpus({10}, {20}), 1, 100, 100);  // no step is done
  world.run(90);
  CHECK(world.full_gpus == 4);
  CHECK(world.job(id).memory.gpu_ratio == doctest::Approx(1.6));
  CHECK(world.job(id).phase == Phase::failed);
  CHECK(world.job(id).reason == "given up after 4 tries: gpu_out_of_memory: full");
  blind.tell(DevicesAdded{{"a/cuda:0"}});
  const JobId unknown = submit_to_gpus(blind, of_gpus({10}));
  blind.run(5);
  blind.end(unknown,
            {.how = Ended::How::failed, .reason = "full", .cause = "gpu_out_of_memory", .fault_class = "user"});
  CHECK(blind.job(unknown).phase == Phase::failed);
}

TEST_CASE("a job begins with the largest ratio of GPUs' memory of the jobs of its program") {
  State state;
  for (const auto& [id, ratio] : std::map<JobId, double>{{1, 1}, {2, 1.5}, {3, 1}}) {
    Job& job = state.jobs[id];
    job.phase = Phase::done;
    job.memory = {.needs = {1, 1}, .checked = {1, 1}, .program = "p", .gpu_ratio = ratio};
  }
  estimate_memory(state, state.jobs[4], {.job = 4, .memory = {1, 1}, .program = "p", .gpus = {7}});
  CHECK(state.jobs[4].memory.gpus == std::vector<double>{7});
  CHECK(state.jobs[4].memory.gpu_ratio == 1.5);
  estimate_memory(state, state.jobs[5], {.job = 5, .memory = {1, 1}, .program = "q", .gpus = {7}});
  CHECK(state.jobs[5].memory.gpu_ratio == 1);
}

// Job 1 at work on GPUs of host "a", with four of 16 GiB there, before memory is looked at.
struct MeantForGpus {
  State state;
  scheduling::PolicyChoice policy = scheduling::make_policy("fifo", 1);
  Settings settings;

  MeantForGpus(int64_t held, const std::vector<double>& needs) {
    for (int64_t gpu = 0; gpu < 4; ++gpu) {
      Slot& slot = state.slots.emplace_back();
      slot = {++state.last_slot, fmt::format("a/cuda:{}", gpu)};
      slot.holder = gpu < held ? 1 : 0;
      state.gpu_memory[slot.name] = 16 * kGiB;
    }
    for (const JobId id : {1, 2}) {
      Job& job = state.jobs[id];
      job.id = id;
      job.phase = id == 1 ? Phase::running : Phase::waiting;
      job.request.type = "cuda";
      job.request.most = job.request.ests = 4;
    }
    state.jobs[1].home = "a";
    state.jobs[1].memory.gpus = in_bytes(needs);
  }
  // The policy means `meant` GPUs for job 1 and `others` for job 2. Returns the number that job 1 gets.
  int64_t fitted(int64_t meant, int64_t others = 0) {
    state.jobs[1].target = {{"a/cuda", meant}};
    state.jobs[2].target = others > 0 ? Target{{"a/cuda", others}} : Target();
    DispatchTurn turn{state, policy, settings, 0};
    fit_memory(turn, {&state.jobs[1], &state.jobs[2]});
    return state.jobs[1].targeted();
  }
};

TEST_CASE("a job at work gets the nearest number of GPUs that hold it, and none where there is no such number") {
  MeantForGpus falling(3, {30, 15, 11, 9});
  CHECK(falling.fitted(3) == 3);
  CHECK(falling.fitted(1) == 2);
  CHECK(falling.fitted(1, 3) == 0);
  CHECK(falling.fitted(4) == 4);
  MeantForGpus rising(1, {10, 20, 20, 11});  // for a second GPU, sums of gradients are needed
  CHECK(rising.fitted(2) == 1);
  CHECK(rising.fitted(3) == 4);
  CHECK(rising.fitted(3, 1) == 1);
  MeantForGpus foretold(2, {30, 30, 30, 15});  // a job at work is not stopped for memory
  CHECK(foretold.fitted(2) == 2);
  CHECK(foretold.fitted(2, 2) == 2);
}

TEST_CASE("the GPU of a host with least memory counts, of those that are the pool's now") {
  MeantForGpus meant(0, {10});
  State& state = meant.state;
  const Job& job = state.jobs.at(1);
  CHECK(gpus_hold(state, job, {{"a/cuda", 1}}));
  state.gpu_memory["a/cuda:3"] = 8 * kGiB;
  CHECK_FALSE(gpus_hold(state, job, {{"a/cuda", 1}}));
  CHECK_FALSE(gpus_hold(state, job, {{"a/cuda", 4}}));           // beyond the last entry as at the last
  CHECK(gpus_hold(state, job, {{"a/cuda", 1}, {"b/cuda", 1}}));  // in host memory
  CHECK(gpus_hold(state, job, {{"a/cuda", 1}, {"a/cpu", 1}}));
  CHECK(gpus_hold(state, job, {}));
  state.slots[3].state = Slot::State::away;
  CHECK(gpus_hold(state, job, {{"a/cuda", 1}}));
}

// Random jobs on two hosts' GPUs of different memory, takes, returns, faults, hangs, lost daemons and wrong estimates.
TEST_CASE("whatever happens, no job goes on with GPUs that do not hold it, and every job ends") {
  for (const std::string& name : scheduling::policies_for_real_jobs()) {
    const std::string policy = with_short_searches(name);
    for (uint64_t seed = 1; seed <= testing::rounds(3, 12); ++seed) {
      CAPTURE(policy);
      CAPTURE(seed);
      std::mt19937_64 random(seed * 79);
      const auto below = [&](uint64_t limit) { return static_cast<int64_t>(random() % limit); };
      FakeOptions options{.seed = seed, .failing = 0.05, .refusing = 0.2, .hanging = 0.1};
      if (seed % 2 == 0) options.memory = {{"", 64 * kGiB}, {"g", 64 * kGiB}};
      const Gpus gpus = {{"cuda:0", 16}, {"cuda:1", 16}, {"g/cuda:0", 24}, {"g/cuda:1", 24}, {"g/cuda:2", 24}};
      FakeWorld world = world_of(policy, gpus, options);
      std::vector<std::string> devices;
      for (const auto& [gpu, gib] : gpus) devices.push_back(gpu);
      Disturbances disturbances(world, devices, below);
      for (int i = 0; i < 40; ++i) {
        world.run(static_cast<double>(below(60)) / 10);
        switch (const int64_t event = below(6)) {
          case 0:
          case 1: {
            Request request;
            request.type = "cuda";
            request.devices = 1 + below(4);
            request.user = below(2) == 0 ? "anna" : "bert";
            request.priority = below(3);
            request.least = below(4) == 0 ? 1 : 0;
            request.one_host = below(2) == 0;
            const int64_t ests = 1 + below(6);
            const auto shared = static_cast<double>(below(ests > 1 ? 40 : 22));  // two GPUs of "g" hold the job
            const double wrong = 0.8 + 0.05 * static_cast<double>(below(10));
            std::vector<double> told, taken;
            for (int64_t n = 1; n <= ests; ++n) {
              told.push_back(shared / static_cast<double>(n) + 2);
              taken.push_back(wrong * told.back());
            }
            world.memory_of_next = below(8) == 0 ? FakeWorld::FakeMemory() : of_gpus(told, taken);
            world.memory_of_next.told = {static_cast<double>(below(8)) * kGiB, static_cast<double>(below(8)) * kGiB};
            world.submit(ests, 20 + below(300), 0.02 + 0.01 * static_cast<double>(below(10)), request);
            break;
          }
          default:
            disturbances.happen(event);
        }
      }
      disturbances.end();
      world.run_out();
    }
  }
}

}  // namespace
}  // namespace estrain::dispatch
