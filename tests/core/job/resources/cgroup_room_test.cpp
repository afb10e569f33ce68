#include <doctest/doctest.h>

#include "core/base/files/files.h"
#include "core/job/resources/machine_limits.h"
#include "tests/scratch_folder.h"

namespace estrain::resources {
namespace {

// A fake /proc and /sys.
struct Root : ScratchFolder {
  void write(const std::string& path, const std::string& content) const {
    const std::string full = *this / path;
    make_folders(full.substr(0, full.rfind('/')));
    replace_bytes(full, content);
  }
  CgroupRoom room() const { return cgroup_room(path()); }
};

TEST_CASE("the room of a process is the least of the machine's and the cgroups'") {
  Root root;
  CHECK(memory_room(root.path()) == UINT64_MAX);
  root.write("proc/meminfo", "MemTotal:  9 kB\nMemAvailable:  3 kB\n");
  CHECK(memory_room(root.path()) == 3072);
  root.write("proc/self/cgroup", "0::/job\n");
  root.write("sys/fs/cgroup/job/memory.current", "700\n");
  root.write("sys/fs/cgroup/job/memory.max", "1000\n");
  CHECK(memory_room(root.path()) == 300);
  root.write("sys/fs/cgroup/job/memory.max", "5000\n");
  CHECK(memory_room(root.path()) == 3072);
}

TEST_CASE("version 2: the least that the group and those around it leave; cached files count as free") {
  Root root;
  root.write("proc/self/cgroup", "0::/slurm/job_7\n");
  CHECK(root.room() == CgroupRoom{});
  root.write("sys/fs/cgroup/slurm/job_7/memory.max", "1000\n");
  root.write("sys/fs/cgroup/slurm/job_7/memory.current", "700\n");
  root.write("sys/fs/cgroup/slurm/job_7/memory.stat", "anon 500\nfile 150\ninactive_file 40\nactive_file 60\n");
  root.write("sys/fs/cgroup/slurm/job_7/pids.max", "max\n");
  root.write("sys/fs/cgroup/slurm/job_7/pids.current", "12\n");
  CHECK(root.room() == CgroupRoom{400, std::nullopt});
  root.write("sys/fs/cgroup/slurm/memory.max", "5000\n");
  root.write("sys/fs/cgroup/slurm/memory.current", "4950\n");
  root.write("sys/fs/cgroup/slurm/pids.max", "20\n");
  root.write("sys/fs/cgroup/slurm/pids.current", "15\n");
  CHECK(root.room() == CgroupRoom{50, 5});
  root.write("sys/fs/cgroup/slurm/memory.current", "6000\n");  // over its limit: nothing is left
  CHECK(root.room().memory_bytes == 0);
  root.write("sys/fs/cgroup/slurm/memory.max", "max\n");
  CHECK(root.room().memory_bytes == 400);
}

TEST_CASE("version 1: a folder for each controller, and a large number for no limit") {
  Root root;
  root.write("proc/self/cgroup", "9:name=systemd:/\n4:memory,hugetlb:/user/a\n3:cpu,cpuacct:/\n2:pids:/p\n0::/\n");
  root.write("sys/fs/cgroup/memory/user/a/memory.limit_in_bytes", "9223372036854771712\n");
  root.write("sys/fs/cgroup/memory/user/a/memory.usage_in_bytes", "700\n");
  CHECK(root.room() == CgroupRoom{});
  root.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "900\n");
  root.write("sys/fs/cgroup/memory/memory.usage_in_bytes", "800\n");
  root.write("sys/fs/cgroup/memory/memory.stat", "inactive_file 7\ntotal_inactive_file 100\ntotal_active_file 50\n");
  root.write("sys/fs/cgroup/pids/p/pids.max", "30\n");
  root.write("sys/fs/cgroup/pids/p/pids.current", "10\n");
  CHECK(root.room() == CgroupRoom{250, 20});
}

TEST_CASE("a file that makes no sense limits nothing") {
  Root root;
  root.write("proc/self/cgroup", "\n0:\nx\n1:memory\n0::relative\n0::/g\n");
  root.write("sys/fs/cgroup/g/memory.max", "");
  root.write("sys/fs/cgroup/g/memory.current", "much\n");
  CHECK(root.room() == CgroupRoom{});
}

}  // namespace
}  // namespace estrain::resources
