#include "core/job/resources/allocation.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <chrono>

#include "core/base/clock.h"
#include "core/base/process/child_process.h"
#include "tests/cmd/setting.h"
#include "tests/scratch_folder.h"

namespace estrain::resources {
namespace {

constexpr int64_t kMB = INT64_C(1) << 20, kGB = INT64_C(1) << 30;
constexpr Instant kNow{1'800'000'000, MonotonicTime(5s)};

MachineLimits wide_machine() { return {64, "CPU affinity", 256 * kGB, "physical memory"}; }

Allocation allocation_of(Environment environment, const MachineLimits& limits = wide_machine()) {
  environment.emplace("SLURM_JOB_ID", "17");
  return read_allocation(environment, limits, kNow);
}

std::pair<int64_t, std::string> cores_of(const Environment& environment) {
  const Allocation allocation = allocation_of(environment);
  return {allocation.cores, allocation.cores_from};
}
using Cores = std::pair<int64_t, std::string>;

std::pair<int64_t, std::string> memory_of(const Environment& environment) {
  const Allocation allocation = allocation_of(environment);
  return {allocation.memory_bytes.value_or(-1), allocation.memory_from};
}

TEST_CASE("outside Slurm the machine's limits alone count, whatever Slurm's other variables say") {
  const Environment leftovers = {{"SLURM_CPUS_ON_NODE", "2"},
                                 {"SLURM_MEM_PER_NODE", "100"},
                                 {"SLURM_RESTART_COUNT", "3"},
                                 {"SLURM_JOB_END_TIME", "1800000060"}};
  for (const Environment& environment : {Environment{}, leftovers}) {
    const Allocation allocation = read_allocation(environment, wide_machine(), kNow);
    CHECK(allocation.cores == 64);
    CHECK(allocation.cores_from == "CPU affinity");
    CHECK(allocation.memory_bytes == 256 * kGB);
    CHECK(allocation.memory_from == "physical memory");
    CHECK_FALSE(allocation.slurm_job.has_value());
    CHECK(allocation.restarts == 0);
    CHECK(allocation.nodes == 1);
    CHECK_FALSE(allocation.gpus.has_value());
    CHECK_FALSE(allocation.seconds_left().has_value());
  }
}

TEST_CASE("a batch script has its node's cores, a step its task's share") {
  const Environment batch = {
      {"SLURM_CPUS_PER_TASK", "2"}, {"SLURM_CPUS_ON_NODE", "8"}, {"SLURM_JOB_CPUS_PER_NODE", "8(x2)"}};
  CHECK(cores_of(batch) == Cores{8, "SLURM_CPUS_ON_NODE"});
  Environment step = batch;
  step["SLURM_STEP_ID"] = "0";
  CHECK(cores_of(step) == Cores{2, "SLURM_CPUS_PER_TASK"});
  CHECK(cores_of({{"SLURM_CPUS_PER_TASK", "2"}}) == Cores{2, "SLURM_CPUS_PER_TASK"});
  CHECK(cores_of({{"SLURM_STEP_ID", "0"}, {"SLURM_CPUS_ON_NODE", "3"}}) == Cores{3, "SLURM_CPUS_ON_NODE"});
}

TEST_CASE("the list of cores per node is read for the node that this is") {
  const auto of_node = [](const char* list, const char* node) {
    return allocation_of({{"SLURM_JOB_CPUS_PER_NODE", list}, {"SLURM_NODEID", node}}).cores;
  };
  CHECK(cores_of({{"SLURM_JOB_CPUS_PER_NODE", "6"}}) == Cores{6, "SLURM_JOB_CPUS_PER_NODE"});
  CHECK(of_node("12(x2),36", "0") == 12);
  CHECK(of_node("12(x2),36", "1") == 12);
  CHECK(of_node("12(x2),36", "2") == 36);
  CHECK(of_node("12(x2),36", "3") == 64);  // no such node: unknown
  for (const char* wrong : {"", ",", "(x2)", "2(x)", "2(x0)", "2x3", "two", "2(", "2)", "(x", "-4"}) {
    CAPTURE(wrong);
    CHECK(of_node(wrong, "0") == 64);
  }
}

TEST_CASE("Slurm's numbers never widen what affinity and cgroups allow") {
  const MachineLimits narrow = {3, "cgroup", 2 * kGB, "cgroup"};
  const Allocation allocation = allocation_of({{"SLURM_CPUS_ON_NODE", "8"}, {"SLURM_MEM_PER_NODE", "4096"}}, narrow);
  CHECK(allocation.cores == 3);
  CHECK(allocation.cores_from == "cgroup");
  CHECK(allocation.memory_bytes == 2 * kGB);
  CHECK(allocation.memory_from == "cgroup");
}

TEST_CASE("memory is that of the node, or a share for each core or GPU; 0 is no limit") {
  using Memory = std::pair<int64_t, std::string>;
  const Memory machine = {256 * kGB, "physical memory"};
  CHECK(memory_of({{"SLURM_MEM_PER_NODE", "4096"}}) == Memory{4 * kGB, "SLURM_MEM_PER_NODE"});
  CHECK(memory_of({{"SLURM_MEM_PER_NODE", "512K"}}) == Memory{kMB / 2, "SLURM_MEM_PER_NODE"});
  CHECK(memory_of({{"SLURM_MEM_PER_NODE", "2G"}}) == Memory{2 * kGB, "SLURM_MEM_PER_NODE"});
  CHECK(memory_of({{"SLURM_MEM_PER_CPU", "1500"}, {"SLURM_CPUS_ON_NODE", "4"}}) ==
        Memory{6000 * kMB, "SLURM_MEM_PER_CPU"});
  CHECK(memory_of({{"SLURM_MEM_PER_GPU", "1024"}, {"SLURM_GPUS_ON_NODE", "3"}}) ==
        Memory{3 * kGB, "SLURM_MEM_PER_GPU"});
  CHECK(memory_of({{"SLURM_MEM_PER_CPU", "1500"}}) == machine);  // the number of CPUs is unknown
  for (const char* wrong : {"0", "", "-1", "4 GB", "M", "9999999999999999999", "9999999999999G", "99999999T"}) {
    CAPTURE(wrong);
    CHECK(memory_of({{"SLURM_MEM_PER_NODE", wrong}}) == machine);
  }
}

TEST_CASE("GPUs are counted as CUDA does, else as Slurm says") {
  const auto gpus = [](const Environment& environment) { return allocation_of(environment).gpus; };
  CHECK(gpus({{"SLURM_GPUS_ON_NODE", "4"}}) == 4);
  CHECK(gpus({{"SLURM_GPUS_ON_NODE", "4"}, {"CUDA_VISIBLE_DEVICES", "0,1"}}) == 2);
  CHECK(gpus({{"CUDA_VISIBLE_DEVICES", "GPU-8a1b,MIG-33c4,7"}}) == 3);
  CHECK(gpus({{"CUDA_VISIBLE_DEVICES", "2,-1,3"}}) == 1);
  CHECK(gpus({{"CUDA_VISIBLE_DEVICES", "NoDevFiles"}}) == 0);
  CHECK(gpus({{"CUDA_VISIBLE_DEVICES", ""}}) == 0);
  CHECK(gpus({{"SLURM_GPUS_ON_NODE", "a100:2"}}) == std::nullopt);
}

TEST_CASE("which job, which of its starts, how many nodes") {
  const Allocation first = allocation_of({});
  CHECK(first.slurm_job == "17");
  CHECK(first.restarts == 0);
  const Allocation third = allocation_of({{"SLURM_RESTART_COUNT", "2"}, {"SLURM_JOB_NUM_NODES", "4"}});
  CHECK(third.restarts == 2);
  CHECK(third.nodes == 4);
  CHECK(allocation_of({{"SLURM_RESTART_COUNT", "-2"}, {"SLURM_JOB_NUM_NODES", "x"}}).restarts == 0);
}

TEST_CASE("the end of the job is kept on the monotonic clock") {
  const auto end = [](const char* text) { return allocation_of({{"SLURM_JOB_END_TIME", text}}).ends; };
  CHECK(end("1800000060") == kNow.monotonic + 60s);
  CHECK(end("1800000000") == kNow.monotonic);
  CHECK(end("1799999999") == std::nullopt);  // of a job that has ended
  CHECK(end("1831536000") == kNow.monotonic + 31'536'000s);
  for (const char* wrong : {"", "0", "-5", "soon", "1e9", "9223372036854775807", "1800000060 "}) {
    CAPTURE(wrong);
    CHECK(end(wrong) == std::nullopt);
  }
}

TEST_CASE("the time left shrinks to 0 and stays there") {
  Allocation allocation;
  allocation.ends = MonotonicClock::now() + 100s;
  const double first = allocation.seconds_left().value();
  const double second = allocation.seconds_left().value();
  CHECK(first <= 100.0);
  CHECK(first > 90.0);
  CHECK(second <= first);
  allocation.ends = MonotonicClock::now() - 1ns;
  CHECK(allocation.seconds_left() == 0.0);
}

TEST_CASE("squeue's words for the time left") {
  CHECK(parse_time_left("0:00") == 0);
  CHECK(parse_time_left("59:58") == 59 * 60 + 58);
  CHECK(parse_time_left("1:02:03") == 3723);
  CHECK(parse_time_left("23:59:59") == 86399);
  CHECK(parse_time_left("1-00:00:00") == 86400);
  CHECK(parse_time_left("364-23:59:30") == 364 * 86400 + 86370);
  CHECK(parse_time_left("45") == 45);
  CHECK(parse_time_left("UNLIMITED") == kNoTimeLimit);
  for (const char* none : {"", "unlimited", "NOT_SET", "INVALID", "-", "1-", "-1:00", "1:-2", "1:2:3:4", ":",
                           "5:", "1 2", "99999999999-00:00:00", "9223372036854775807", "0x10"}) {
    CAPTURE(none);
    CHECK(parse_time_left(none) == std::nullopt);
  }
}

// A fake squeue that records its arguments.
std::string fake_squeue(const ScratchFolder& folder, const std::string& body) {
  const std::string path = folder / "squeue";
  replace_bytes(path, "#!/bin/sh\necho \"$*\" >" + (folder / "arguments") + "\n" + body + "\n");
  ::chmod(path.c_str(), 0755);
  return path;
}

TEST_CASE("squeue is asked for the job's time left") {
  const ScratchFolder folder;
  const std::string squeue = fake_squeue(folder, "echo '1:40 '");
  CHECK(ask_time_left("17", 10s, squeue) == 100);
  CHECK(bytes_of(folder / "arguments") == "--noheader --jobs 17 --format %L\n");
}

TEST_CASE("a squeue that fails, babbles or is not there says nothing") {
  const ScratchFolder folder;
  CHECK(ask_time_left("17", 10s, fake_squeue(folder, "echo 1:40; exit 1")) == std::nullopt);
  CHECK(ask_time_left("17", 10s, fake_squeue(folder, "echo 1:40; kill -9 $$")) == std::nullopt);
  CHECK(ask_time_left("17", 10s, fake_squeue(folder, "echo NOT_SET")) == std::nullopt);
  CHECK(ask_time_left("17", 10s, fake_squeue(folder, "echo warning >&2; echo 1:40")) == std::nullopt);
  CHECK(ask_time_left("17", 10s, folder / "none") == std::nullopt);
}

TEST_CASE("a squeue that does not answer is killed when its time is up") {
  const ScratchFolder folder;
  const std::string squeue = fake_squeue(folder, "echo $$ >" + (folder / "pid") + "; exec sleep 100");
  const MonotonicTime start = MonotonicClock::now();
  CHECK(ask_time_left("17", 2s, squeue) == std::nullopt);
  CHECK(MonotonicClock::now() - start < 90s);
  const std::string pid = bytes_of(folder / "pid");
  REQUIRE_FALSE(pid.empty());
  CHECK_FALSE(std::filesystem::exists("/proc/" + pid.substr(0, pid.size() - 1)));
}

TEST_CASE("the end of a job whose time limit was changed is squeue's, not that of the environment") {
  const ScratchFolder folder;
  const std::string in_a_minute = std::to_string(::time(nullptr) + 60);
  const testing::Setting job("SLURM_JOB_ID", "17"), end("SLURM_JOB_END_TIME", in_a_minute);
  const auto seconds_left = [](std::optional<MonotonicTime> at) {
    return seconds(at.value() - MonotonicClock::now()).count();
  };
  fake_squeue(folder, "echo 1:00:00");
  const testing::Setting path("PATH", folder.path() + ":" + ::getenv("PATH"));
  const auto known = current_allocation().ends;  // from the cache
  CHECK(seconds_left(known) <= 61);
  CHECK(seconds_left(current_end(known)) > 3000);
  fake_squeue(folder, "echo UNLIMITED");
  CHECK(current_end(known) == std::nullopt);
  fake_squeue(folder, "exit 1");
  CHECK(current_end(known) == known);
}

TEST_CASE("of an allocation that has ended nothing counts, whatever its variables say") {
  const Environment left = {{"SLURM_JOB_END_TIME", "1799999999"}, {"SLURM_CPUS_ON_NODE", "2"},
                            {"SLURM_MEM_PER_NODE", "100"},        {"SLURM_RESTART_COUNT", "3"},
                            {"SLURM_JOB_NUM_NODES", "4"},         {"SLURM_GPUS_ON_NODE", "2"}};
  const Allocation allocation = allocation_of(left);
  CHECK(allocation.ended_job == "17");
  CHECK_FALSE(allocation.slurm_job.has_value());
  CHECK(allocation.cores == 64);
  CHECK(allocation.memory_from == "physical memory");
  CHECK(allocation.restarts == 0);
  CHECK(allocation.nodes == 1);
  CHECK_FALSE(allocation.gpus.has_value());
  CHECK_FALSE(allocation.seconds_left().has_value());
  Environment now = left;
  now["SLURM_JOB_END_TIME"] = "1800000001";
  CHECK_FALSE(allocation_of(now).ended_job.has_value());
  CHECK(allocation_of(now).cores == 2);
}

TEST_CASE(
    "an allocation whose end was put off is known to squeue, and counts; one that squeue does not know has ended") {
  const ScratchFolder folder;
  const std::string a_minute_ago = std::to_string(::time(nullptr) - 60);
  const testing::Setting end("SLURM_JOB_END_TIME", a_minute_ago), cores("SLURM_CPUS_ON_NODE", "1");
  const testing::Setting path("PATH", folder.path() + ":" + ::getenv("PATH"));
  {
    fake_squeue(folder, "echo 1:00:00");
    const testing::Setting job("SLURM_JOB_ID", "17");
    const Allocation put_off = current_allocation();
    CHECK(put_off.slurm_job == "17");
    CHECK(put_off.cores_from == "SLURM_CPUS_ON_NODE");
    CHECK(put_off.seconds_left().value_or(0) > 3000);
    CHECK(words_of_ended_job(put_off) == "");
    fake_squeue(folder, "echo UNLIMITED");
    CHECK(current_allocation().slurm_job == "17");
    CHECK_FALSE(current_allocation().ends.has_value());
  }
  for (const char* answer : {"echo slurm_load_jobs error: Invalid job id specified >&2; exit 1", "exit 0"}) {
    fake_squeue(folder, answer);
    const std::string id = std::to_string(std::string(answer).size());
    const testing::Setting job("SLURM_JOB_ID", id);
    const Allocation ended = current_allocation();
    CHECK(ended.ended_job == id);
    CHECK_FALSE(ended.slurm_job.has_value());
    CHECK_FALSE(ended.ends.has_value());
    CHECK(current_end(std::nullopt) == std::nullopt);
    CHECK(words_of_ended_job(ended).starts_with("Slurm job " + id + " has ended"));
  }
}

TEST_CASE("what the event says: the sources, and Slurm's part only under Slurm") {
  const Json outside = describe(read_allocation({}, {2, "cgroup", {}, ""}, kNow));
  CHECK(outside.dump() == R"({"cores":2,"cores_from":"cgroup"})");
  Allocation inside = allocation_of({{"SLURM_CPUS_ON_NODE", "8"}, {"SLURM_RESTART_COUNT", "1"}});
  CHECK(describe(inside).at("slurm_job") == "17");
  CHECK(describe(inside).at("restarts") == 1);
  CHECK(describe(inside).at("cores_from") == "SLURM_CPUS_ON_NODE");
  CHECK_FALSE(describe(inside).contains("seconds_left"));
  inside.ends = MonotonicClock::now() + 50s;
  CHECK(describe(inside).at("seconds_left").get<double>() <= 50.0);
}

TEST_CASE("this process has at least one core, and not more than the machine") {
  const Allocation allocation = current_resources();
  CHECK(allocation.cores >= 1);
  CHECK(allocation.cores <= machine_limits().cores);
  CHECK(own_environment().contains("PATH"));
}

}  // namespace
}  // namespace estrain::resources
