#include "core/run/launch/launcher/parts/supervision.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <filesystem>

#include "core/base/clock.h"
#include "core/base/files/files.h"
#include "tests/core/run/launch/launcher/parts/sample_run.h"
#include "tests/error_of.h"

namespace estrain::launch {
namespace {

struct WatchedRun : SampleRun {
  Supervision supervision{run->view(), processes()};

  // An allocation that has lasted for `past` seconds and ends in `left` s.
  void allocate(double past, double left) {
    run->state.times.started = MonotonicClock::now() - nanoseconds(Seconds(past));
    run->state.times.ends = MonotonicClock::now() + nanoseconds(Seconds(left));
  }
  bool stops() {
    const auto event = supervision.find_allocation_end(run->state.times.ends, MonotonicClock::now());
    if (!event) return false;
    CHECK(std::get<decisions::StopAsked>(*event).why.starts_with("the allocation ends in "));
    return true;
  }
};

TEST_CASE("a job stops its grace before its allocation ends") {
  WatchedRun sample;
  sample.run->job.grace_seconds = 60;
  CHECK_FALSE(sample.stops());  // nothing ends
  sample.allocate(1000, 62);
  CHECK_FALSE(sample.stops());
  sample.allocate(1000, 59);
  CHECK(sample.stops());
  sample.allocate(1000, -5);
  CHECK(sample.stops());
  sample.run->job.ending = decisions::RunEnding::stopped;  // it has been told
  CHECK_FALSE(sample.stops());
}

TEST_CASE("a short allocation is used for a quarter of its time, however long the grace is") {
  WatchedRun sample;
  sample.run->job.grace_seconds = 60;
  sample.allocate(8, 32);
  CHECK_FALSE(sample.stops());
  sample.allocate(12, 28);
  CHECK(sample.stops());
}

TEST_CASE("the lock shows life, but not at every look") {
  WatchedRun sample;
  const std::string lock = sample.run->journal.directory.lock_file();
  const timespec past[] = {{1000, 0}, {1000, 0}};
  const auto is_touched = [&] {
    struct stat status {};
    REQUIRE(::stat(lock.c_str(), &status) == 0);
    return status.st_mtim.tv_sec != 1000;
  };
  REQUIRE(::utimensat(AT_FDCWD, lock.c_str(), past, 0) == 0);
  sample.supervision.show_life(MonotonicClock::now());
  CHECK(is_touched());
  REQUIRE(::utimensat(AT_FDCWD, lock.c_str(), past, 0) == 0);
  sample.supervision.begin_round(MonotonicClock::now());
  CHECK_FALSE(is_touched());
}

TEST_CASE("a deleted lock is made anew; a launcher whose run another launcher has taken ends") {
  WatchedRun sample;
  const run_directory::RunDirectory& directory = sample.run->journal.directory;
  MonotonicTime now = MonotonicClock::now();
  std::filesystem::remove(directory.lock_file());
  sample.supervision.show_life(now);
  CHECK(directory.owner().value().is_this_process());
  std::filesystem::remove(directory.lock_file());
  replace_bytes(directory.lock_file(), run_directory::RunOwner{7, "another host", ""}.to_text());
  now += run_directory::kBetweenTouches;
  const Error error = error_of([&] { sample.supervision.show_life(now); });
  CHECK(error.fault() == Fault::usage);
  CHECK(error.message() == directory.path() +
                               ": its file `lock` was deleted, and another launcher (process 7 on another host) has "
                               "taken the run");
}

}  // namespace
}  // namespace estrain::launch
