#include "core/job/resources/memory_evidence.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "tests/scratch_folder.h"

namespace estrain::resources {
namespace {

// The kernel's files that the code reads.
class Kernel {
 public:
  void write(const std::string& name, const std::string& content) {
    std::filesystem::create_directories(std::filesystem::path(folder_ / name).parent_path());
    replace_bytes(folder_ / name, content);
  }
  void log(const std::string& lines) {
    std::filesystem::create_directories(folder_ / "dev");
    std::ofstream(folder_ / "dev/kmsg", std::ios::app) << lines;
  }

  const std::string& root() const { return folder_.path(); }

  void events(const std::string& group, int64_t kills) {
    write("sys/fs/cgroup" + group + "/memory.events",
          "low 0\nhigh 0\nmax 812\noom 3\noom_kill " + std::to_string(kills) + "\noom_group_kill 0\n");
  }
  void control(const std::string& group, int64_t kills) {
    write("sys/fs/cgroup/memory" + group + "/memory.oom_control",
          "oom_kill_disable 0\nunder_oom 0\noom_kill " + std::to_string(kills) + "\n");
  }
  void machine(int64_t kills) {
    write("proc/vmstat", "nr_free_pages 7\noom_kill " + std::to_string(kills) + "\ndrop_pagecache 0\n");
  }

 private:
  ScratchFolder folder_;
};

// A job in a group of version 2 with 2 GiB, below one without a limit.
class Version2 : public Kernel {
 public:
  Version2() {
    write("proc/self/cgroup", "0::/slurm/job_42\n");
    events("/slurm/job_42", 0);
    write("sys/fs/cgroup/slurm/job_42/memory.max", "2147483648\n");
    write("sys/fs/cgroup/slurm/job_42/memory.peak", "2147000000\n");
    write("sys/fs/cgroup/slurm/memory.max", "max\n");
    write("proc/meminfo", "MemTotal:       16384000 kB\nMemFree:  1 kB\n");
  }
};

TEST_CASE("cgroup version 2: a kill in the group, with limit and peak") {
  Version2 kernel;
  MemoryEvidence evidence(kernel.root());
  auto found = evidence.since_start(4711);
  CHECK_FALSE(found.oom_kill);
  CHECK(found.text == "memory.events: oom_kill 0, memory.max 2.1 GB, memory.peak 2.1 GB");
  kernel.events("/slurm/job_42", 1);
  found = evidence.since_start(4711);
  CHECK(found.oom_kill);
  CHECK(found.text == "memory.events: oom_kill 1 (was 0), memory.max 2.1 GB, memory.peak 2.1 GB");
}

TEST_CASE("kills before the start do not count, and each kill explains one death") {
  Version2 kernel;
  kernel.events("/slurm/job_42", 5);
  MemoryEvidence evidence(kernel.root());
  CHECK_FALSE(evidence.since_start(1).oom_kill);
  kernel.events("/slurm/job_42", 7);
  CHECK(evidence.since_start(2).text.starts_with("memory.events: oom_kill 7 (was 5), "));
  CHECK(evidence.since_start(3).text.starts_with("memory.events: oom_kill 7 (was 6), "));
  CHECK_FALSE(evidence.since_start(4).oom_kill);
  kernel.events("/slurm/job_42", 8);
  CHECK(evidence.since_start(5).oom_kill);
}

TEST_CASE("the tightest limit may be that of a group above") {
  Version2 kernel;
  kernel.write("sys/fs/cgroup/slurm/memory.max", "1000000000\n");
  kernel.write("sys/fs/cgroup/slurm/memory.peak", "999000000\n");
  MemoryEvidence evidence(kernel.root());
  CHECK(evidence.since_start(1).text == "memory.events: oom_kill 0, memory.max 1.0 GB, memory.peak 999 MB");
}

TEST_CASE("a group without a limit has the machine's memory") {
  Version2 kernel;
  kernel.write("sys/fs/cgroup/slurm/job_42/memory.max", "max\n");
  MemoryEvidence evidence(kernel.root());
  CHECK(evidence.since_start(1).text ==
        "memory.events: oom_kill 0, memory.peak 2.1 GB, no limit but the machine's 16.8 GB");
}

TEST_CASE("in a container the group is found at the top of what is mounted") {
  Kernel kernel;
  kernel.write("proc/self/cgroup", "0::/docker/0123456789abcdef\n");
  kernel.events("", 0);
  kernel.write("sys/fs/cgroup/memory.max", "512000000\n");
  MemoryEvidence evidence(kernel.root());
  kernel.events("", 1);
  const auto found = evidence.since_start(1);
  CHECK(found.oom_kill);
  CHECK(found.text == "memory.events: oom_kill 1 (was 0), memory.max 512 MB");
}

TEST_CASE("cgroup version 1, also beside a tree of version 2") {
  Kernel kernel;
  kernel.write("proc/self/cgroup", "9:name=systemd:/\n4:cpu,memory:/job_42\n3:cpuset:/\n0::/\n");
  kernel.events("", 0);
  kernel.control("/job_42", 2);
  kernel.control("", 0);
  kernel.write("sys/fs/cgroup/memory/job_42/memory.limit_in_bytes", "2147483648\n");
  kernel.write("sys/fs/cgroup/memory/job_42/memory.max_usage_in_bytes", "2147483648\n");
  kernel.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  MemoryEvidence evidence(kernel.root());
  CHECK_FALSE(evidence.since_start(1).oom_kill);
  kernel.control("/job_42", 3);
  const auto found = evidence.since_start(1);
  CHECK(found.oom_kill);
  CHECK(found.text ==
        "memory.oom_control: oom_kill 3 (was 2), memory.limit_in_bytes 2.1 GB, memory.max_usage_in_bytes 2.1 GB");
}

TEST_CASE("version 1's number for no limit is none") {
  Kernel kernel;
  kernel.write("proc/self/cgroup", "4:memory:/\n");
  kernel.control("", 0);
  kernel.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  kernel.write("proc/meminfo", "MemTotal:       16384000 kB\n");
  MemoryEvidence evidence(kernel.root());
  CHECK(evidence.since_start(1).text == "memory.oom_control: oom_kill 0, no limit but the machine's 16.8 GB");
}

TEST_CASE("without a group the kills of the machine count") {
  Kernel kernel;
  kernel.write("proc/self/cgroup", "0::/\n");
  kernel.write("proc/meminfo", "MemTotal:       16384000 kB\n");
  kernel.machine(4);
  MemoryEvidence evidence(kernel.root());
  CHECK_FALSE(evidence.since_start(1).oom_kill);
  kernel.machine(5);
  const auto found = evidence.since_start(1);
  CHECK(found.oom_kill);
  CHECK(found.text == "/proc/vmstat: oom_kill 5 (was 4), no limit but the machine's 16.8 GB");
}

TEST_CASE("with a group the kills of others on the machine do not count") {
  Version2 kernel;
  kernel.machine(4);
  MemoryEvidence evidence(kernel.root());
  kernel.machine(5);
  CHECK_FALSE(evidence.since_start(1).oom_kill);
}

TEST_CASE("the kernel's log names the victim") {
  Version2 kernel;
  kernel.log("6,1,100,-;Out of memory: Killed process 4711 (estrain) from another day\n");
  MemoryEvidence evidence(kernel.root());
  kernel.log(
      "6,2,200,-;estrain invoked oom-killer: gfp_mask=0x2084d0, order=0\n"
      "3,3,300,-;Memory cgroup out of memory: Killed process 4712 (estrain) total-vm:9884kB, anon-rss:8000kB\n"
      " SUBSYSTEM=memory\n");
  CHECK_FALSE(evidence.since_start(4711).oom_kill);  // that was before the start
  const auto found = evidence.since_start(4712);
  CHECK(found.oom_kill);
  CHECK(found.text ==
        "kernel: Memory cgroup out of memory: Killed process 4712 (estrain) total-vm:9884kB, anon-rss:8000kB; "
        "memory.events: oom_kill 0, memory.max 2.1 GB, memory.peak 2.1 GB");
  CHECK_FALSE(evidence.since_start(471).oom_kill);
  kernel.log("3,4,400,-;Out of memory: Killed process 99 (estrain) total");
  CHECK_FALSE(evidence.since_start(99).oom_kill);  // the line is not complete yet
  kernel.log("-vm:1kB\n");
  CHECK(evidence.since_start(99).text.starts_with("kernel: Out of memory: Killed process 99 (estrain) total-vm:1kB; "));
}

TEST_CASE("a kill that the log and the group both tell of explains one death") {
  Version2 kernel;
  kernel.log("");
  MemoryEvidence evidence(kernel.root());
  kernel.events("/slurm/job_42", 1);
  kernel.log("3,3,300,-;Memory cgroup out of memory: Killed process 4712 (estrain) total-vm:9884kB\n");
  CHECK(evidence.since_start(4712).oom_kill);
  CHECK_FALSE(evidence.since_start(4713).oom_kill);
}

TEST_CASE("nothing to read is no evidence, and no error") {
  const ScratchFolder empty;
  MemoryEvidence evidence(empty.path());
  const auto found = evidence.since_start(1);
  CHECK_FALSE(found.oom_kill);
  CHECK(found.text.empty());
}

TEST_CASE("files of other forms are no evidence") {
  Version2 kernel;
  kernel.write("sys/fs/cgroup/slurm/job_42/memory.events", "oom_kill\noom_kill many\n");
  kernel.write("sys/fs/cgroup/slurm/job_42/memory.max", "\n");
  kernel.write("proc/self/cgroup", "nonsense\n0::/slurm/job_42");
  MemoryEvidence evidence(kernel.root());
  CHECK_FALSE(evidence.since_start(1).oom_kill);
}

TEST_CASE("the kernel of this machine can be asked") {
  MemoryEvidence evidence;
  CHECK_FALSE(evidence.since_start(1).text.empty());
}

TEST_CASE("amounts of memory") {
  CHECK(format_memory(0) == "0 MB");
  CHECK(format_memory(512'400'000) == "512 MB");
  CHECK(format_memory(1'000'000'000) == "1.0 GB");
  CHECK(format_memory(80'000'000'000) == "80.0 GB");
}

}  // namespace
}  // namespace estrain::resources
