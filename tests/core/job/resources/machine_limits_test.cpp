#include "core/job/resources/machine_limits.h"

#include <doctest/doctest.h>
#include <sched.h>

#include <initializer_list>
#include <thread>
#include <utility>

#include "tests/scratch_folder.h"

namespace estrain::resources {
namespace {

// The files of a fake machine: /proc/self/cgroup and below /sys/fs/cgroup.
class FakeMachine {
 public:
  explicit FakeMachine(const std::string& membership,
                       std::initializer_list<std::pair<const char*, const char*>> files = {}) {
    write("proc/self/cgroup", membership);
    for (const auto& [name, text] : files) write(std::string("sys/fs/cgroup/") + name, text);
  }
  CgroupLimits limits() const { return cgroup_limits(folder_.path()); }

 private:
  void write(const std::string& name, const std::string& text) {
    const std::filesystem::path path = folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    replace_bytes(path.string(), text);
  }
  ScratchFolder folder_;
};

TEST_CASE("version 2: the tightest of the group and of those around it counts") {
  const FakeMachine machine("0::/slurm/job_17/step_0\n", {{"slurm/job_17/step_0/cpu.max", "max 100000\n"},
                                                          {"slurm/job_17/step_0/memory.max", "3000000000\n"},
                                                          {"slurm/job_17/cpu.max", "150000 100000\n"},
                                                          {"slurm/job_17/memory.max", "2000000000\n"},
                                                          {"slurm/cpu.max", "800000 100000\n"},
                                                          {"slurm/memory.max", "max\n"},
                                                          {"memory.max", "2500000000\n"}});
  CHECK(machine.limits().cpus == 1.5);
  CHECK(machine.limits().memory_bytes == 2'000'000'000);
}

TEST_CASE("version 2: a group that the mount does not show leaves the root's limits") {
  const FakeMachine machine("0::/somewhere/else\n", {{"cpu.max", "50000 100000\n"}, {"memory.max", "1000\n"}});
  CHECK(machine.limits().cpus == 0.5);
  CHECK(machine.limits().memory_bytes == 1000);
}

TEST_CASE("version 1: every controller has a tree of its own") {
  const FakeMachine machine("5:memory:/job/a\n4:cpu,cpuacct:/job/b\n1:name=systemd:/\n0::/\n",
                            {{"cpu/job/b/cpu.cfs_quota_us", "-1\n"},
                             {"cpu/job/b/cpu.cfs_period_us", "100000\n"},
                             {"cpu/job/cpu.cfs_quota_us", "400000\n"},
                             {"cpu/job/cpu.cfs_period_us", "100000\n"},
                             {"cpu/job/a/cpu.cfs_quota_us", "100000\n"},  // of another group
                             {"cpu/job/a/cpu.cfs_period_us", "100000\n"},
                             {"memory/job/a/memory.limit_in_bytes", "7000\n"},
                             {"memory/job/memory.limit_in_bytes", "9223372036854771712\n"}});
  CHECK(machine.limits().cpus == 4.0);
  CHECK(machine.limits().memory_bytes == 7000);
}

TEST_CASE("no limit where nobody sets one, or files say something else") {
  CHECK_FALSE(FakeMachine("").limits().cpus.has_value());
  CHECK_FALSE(FakeMachine("0::/\n").limits().memory_bytes.has_value());
  const FakeMachine odd("no colons\n0::/\n7:cpu:\n",
                        {{"cpu.max", "max\n"}, {"memory.max", "-1\n"}, {"cpu/cpu.cfs_quota_us", "100000\n"}});
  CHECK_FALSE(odd.limits().cpus.has_value());
  CHECK_FALSE(odd.limits().memory_bytes.has_value());
  CHECK_FALSE(cgroup_limits("/nowhere").cpus.has_value());
}

TEST_CASE("the CPU affinity of the process is respected") {
  const MachineLimits all = machine_limits();
  REQUIRE(all.cores >= 1);
  CHECK(all.memory_bytes.value_or(0) > 0);
  MachineLimits pinned;
  std::thread([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<size_t>(::sched_getcpu()), &one);
    REQUIRE(::sched_setaffinity(0, sizeof one, &one) == 0);
    pinned = machine_limits();
  }).join();
  CHECK(pinned.cores == 1);
  CHECK(pinned.cores_from == "CPU affinity");
}

}  // namespace
}  // namespace estrain::resources
