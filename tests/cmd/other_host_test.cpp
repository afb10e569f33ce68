// Hosts that share a job's run directory but not its control socket.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <filesystem>

#include "core/state/run_directory/run_owner.h"
#include "job.h"
#include "job_specs.h"
#include "run_files.h"

namespace estrain::testing {
namespace {

// Makes a command believe that its host has another name.
const Command::Options kElsewhere = {.before =
                                         R"(exec unshare --uts /bin/sh -c 'hostname elsewhere; exec "$@"' sh "$@")"};

bool may_rename_hosts() { return std::system("unshare --uts true 2>/dev/null") == 0; }

Ended elsewhere(const Words& arguments) { return Command(arguments, kElsewhere).wait(); }

TEST_CASE("another host sees that a job lives and how far it is, and is told where to ask it" *
          doctest::skip(!may_rename_hosts())) {
  const ScratchFolder folder;
  Job job(folder.write("job.toml", long_job()), folder / "run");
  job.reach(5);
  wait_until("records", [&] { return !metric_steps(job.run()).empty(); });
  const std::string socket = job.run() + "/control.sock", lock = job.run() + "/lock";
  std::filesystem::rename(socket, socket + ".away");
  const Ended status = elsewhere({"status", job.run(), "--json"});
  INFO(status.shown());
  REQUIRE(status.code == 0);
  const Json told = Json::parse(status.text);
  CHECK(told.at("state") == "elsewhere");
  char name[HOST_NAME_MAX + 1] = {};
  REQUIRE(::gethostname(name, sizeof name - 1) == 0);
  CHECK(told.at("host") == name);
  CHECK(told.at("pid") == job.pid());
  CHECK(told.at("step").get<int64_t>() > 0);
  const Ended stop = elsewhere({"stop", job.run()});
  INFO(stop.shown());
  CHECK(stop.code == 2);
  CHECK(stop.says("at work on another host (process " + std::to_string(job.pid()) + " on " + name + ")"));

  const timespec long_ago[] = {{0, UTIME_OMIT}, {1'000'000'000, 0}};
  REQUIRE(::utimensat(AT_FDCWD, lock.c_str(), long_ago, 0) == 0);
  CHECK(Json::parse(elsewhere({"status", job.run(), "--json"}).text).at("state") == "not running");
  wait_until("a sign of life", [&] { return run_directory::seconds_since_touch(lock).value() < 60; });
  std::filesystem::rename(socket + ".away", socket);
  CHECK(job.stop().code == 0);
  CHECK(job.launcher().wait().code == 75);
  CHECK(Json::parse(elsewhere({"status", job.run(), "--json"}).text).at("state") == "stopped");
}

}  // namespace
}  // namespace estrain::testing
