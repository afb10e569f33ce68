#include "core/state/run_directory/run_owner.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <future>
#include <thread>

#include "core/base/clock.h"
#include "tests/scratch_folder.h"

namespace estrain::run_directory {
namespace {

TEST_CASE("an owner is written and read") {
  const RunOwner self = RunOwner::this_process();
  CHECK(self.pid == ::getpid());
  CHECK(self.is_here());
  const auto read = RunOwner::from_text(self.to_text());
  REQUIRE(read.has_value());
  CHECK(read->pid == self.pid);
  CHECK(read->host == self.host);
  CHECK(read->slurm_job == self.slurm_job);
  for (const char* other : {"", "4711", "[]", "{}", "{\"pid\":1}", "{\"pid\":\"1\",\"host\":\"a\",\"slurm_job\":\"\"}",
                            "{\"pid\":1,\"host\":\"a\",\"slurm_job\":"}) {
    CAPTURE(other);
    CHECK_FALSE(RunOwner::from_text(other).has_value());
  }
}

TEST_CASE("how an owner is called and reached") {
  RunOwner owner = RunOwner::this_process();
  owner.pid = 4711;
  CHECK(owner.name() == "process 4711");
  owner.host += "-not";
  CHECK_FALSE(owner.is_here());
  CHECK(owner.name() == "process 4711 on " + owner.host);
  owner.slurm_job = "";
  CHECK(owner.reach() == "ssh " + owner.host);
  owner.slurm_job = "42";
  CHECK(owner.reach() == "srun --overlap --jobid=42");
}

TEST_CASE("whether an owner has ended can be told on its host alone") {
  RunOwner owner = RunOwner::this_process();
  CHECK_FALSE(owner.has_ended());
  owner.pid = ::fork();
  if (owner.pid == 0) ::_exit(0);
  ::waitpid(owner.pid, nullptr, 0);
  CHECK(owner.has_ended());
  owner.host += "-not";
  CHECK_FALSE(owner.has_ended());
}

TEST_CASE("a touch is seen, by its time and as it happens") {
  const ScratchFolder folder;
  const std::string path = folder.write("lock", "");
  CHECK_FALSE(seconds_since_touch(folder / "none").has_value());
  CHECK(seconds_since_touch(path).value() < 10);
  const timespec times[] = {{0, UTIME_OMIT}, {unix_seconds() - 100, 0}};
  REQUIRE(::utimensat(AT_FDCWD, path.c_str(), times, 0) == 0);
  CHECK(seconds_since_touch(path).value() >= 99);
  CHECK(seconds_since_touch(path).value() < 110);

  CHECK_FALSE(is_touched_within(path, 250ms));
  CHECK_FALSE(is_touched_within(folder / "none", 250ms));
  auto seen = std::async(std::launch::async, [&] { return is_touched_within(path, 20s); });
  while (seen.wait_for(std::chrono::milliseconds(20)) != std::future_status::ready)
    REQUIRE(::utimensat(AT_FDCWD, path.c_str(), nullptr, 0) == 0);
  CHECK(seen.get());
}

}  // namespace
}  // namespace estrain::run_directory
