// Guests of a pool: background jobs beside other jobs. A guest's workers leave the processors to other jobs, a guest
// leaves when another job takes the guest's device, and both jobs have the bits that they have alone.

#include <doctest/doctest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "command.h"
#include "in_time.h"
#include "job_specs.h"
#include "run_files.h"
#include "served_pool.h"
#include "tests/scratch_folder.h"

namespace estrain::testing {
namespace {

bool gives_way(pid_t process) {
  constexpr int kProcess = 1, kIdleClass = 3;
  const int64_t io = ::syscall(SYS_ioprio_get, kProcess, process) >> 13;
  return ::sched_getscheduler(process) == SCHED_IDLE && ::getpriority(PRIO_PROCESS, static_cast<id_t>(process)) == 19 &&
         io == kIdleClass;
}

std::vector<ProcessInfo> processes_of(const std::string& run, std::string_view verb) {
  std::vector<ProcessInfo> all = processes();
  std::erase_if(all, [&](const ProcessInfo& one) {
    return !one.is(verb) || std::ranges::find(one.arguments, run) == one.arguments.end();
  });
  return all;
}

void check_who_gives_way(const std::string& run, size_t num_workers) {
  const std::vector<ProcessInfo> workers = processes_of(run, "worker");
  CHECK(workers.size() == num_workers);
  for (const ProcessInfo& worker : workers) CHECK(gives_way(worker.pid));
  for (const char* verb : {"train", "scribe"})
    for (const ProcessInfo& process : processes_of(run, verb)) CHECK_FALSE(gives_way(process.pid));
}

// A job that starts and steps in little processor time: at the idle priority a busy machine leaves a guest a hundredth
// of a core.
std::string guest_job() {
  return R"([job]
name = "guest"
seed = 17
ests = 3
[model]
name = "mlp"
hidden = [16]
dropout = 0.3
classes = 10
[data]
format = "synthetic"
shape = [32]
samples = 300
batch = 8
[optimizer]
name = "adam"
lr = 0.001
[train]
steps = 1000000
eval_every = "never"
)";
}

int64_t last_stop(const Pool& pool, int64_t job) {
  return events(pool.run(job), "stopped").back().at("step").get<int64_t>();
}

void wait_for_step(const Pool& pool, int64_t job) {
  const int64_t step = pool.job(job).at("step").get<int64_t>();
  wait_until(fmt::format("a step of job {}", job), [&] { return pool.job(job).at("step").get<int64_t>() > step; });
}

void wait_beside(const Pool& pool, int64_t guest, const Json& host) {
  wait_until(fmt::format("guest {} beside {}", guest, host.dump()), [&] {
    const Json job = pool.job(guest);
    return job.at("phase") == "running" && job.at("beside") == host;
  });
  wait_for_step(pool, guest);
}

TEST_CASE("workers of a run in the background give way, also new ones; the bits stay") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", long_job()), run = folder / "run";
  Command train({"train", spec, "--run", run, "--devices", "cpu", "--background"});
  wait_until("steps", [&] { return last_step(run) > 5; });
  check_who_gives_way(run, 1);
  CHECK(estrain({"resize", run, "--devices", "cpu*2"}).code == 0);
  check_who_gives_way(run, 2);
  const Ended gpu = estrain({"resize", run, "--devices", "cuda:0"});
  CHECK(gpu.code != 0);
  CHECK(gpu.says("--background: a worker on cuda:0 would not give way to others"));
  CHECK(estrain({"stop", run}).code == 0);
  train.wait();
  const std::string steps = fmt::format("train.steps={}", events(run, "stopped").back().at("step").get<int64_t>());
  const std::string alone = folder / "alone";
  REQUIRE(estrain({"train", spec, "--run", alone, "--devices", "cpu", "--set", steps}).code == 0);
  CHECK(difference(run, alone).text == "");
  const Ended elsewhere = estrain({"train", spec, "--run", folder / "b", "--devices", "cuda:0", "--background"});
  CHECK(elsewhere.code == 2);
  CHECK(elsewhere.says("take CPUs of this host, or leave --background out"));
}

TEST_CASE("a guest is beside a job, leaves when the device is taken, and both have the bits of each alone") {
  in_time("a device taken from a job and its guest", [](Timed& timed) {
    const ScratchFolder folder;
    const std::string mlp = folder.write("mlp.toml", long_job()), small = folder.write("guest.toml", guest_job()),
                      lenet = folder.write("lenet.toml", lenet_job());
    Pool pool(folder / "pool", {"--devices", "cpu", "--policy", "fifo", "--round", "0.5", "--tolerate", "1000%"});
    const int64_t host = pool.submit(mlp), guest = pool.submit(small, {"--background"});
    wait_beside(pool, guest, host);
    check_who_gives_way(pool.run(guest), 1);
    for (const ProcessInfo& worker : processes_of(pool.run(host), "worker")) CHECK_FALSE(gives_way(worker.pid));
    CHECK(pool.ask("status").says(fmt::format("in use, job {}, guest {}", host, guest)));
    const size_t starts = events(pool.run(guest), "start").size();
    pool.daemon().signal(SIGKILL);
    pool.daemon().wait();
    pool.serve({"--round", "0.5"});
    wait_beside(pool, guest, host);
    CHECK(events(pool.run(guest), "start").size() == starts);
    const Ended taken = pool.ask("take", {"1", "--within", "5s", "--json"});
    INFO(taken.shown());
    REQUIRE(taken.code == 0);
    timed.check(Json::parse(taken.text).at("seconds").get<double>() <= 5, "a device within 5 s: " + taken.text);
    for (const int64_t job : {host, guest}) CHECK(processes_of(pool.run(job), "worker").empty());
    CHECK(pool.ask("lend", {"1"}).code == 0);
    wait_beside(pool, guest, host);
    CHECK(pool.ask("cancel", {std::to_string(host)}).code == 0);
    pool.wait_for(host, "cancelled");
    wait_beside(pool, guest, nullptr);
    const int64_t short_job = pool.submit(lenet);
    pool.wait_for(short_job, "done");
    CHECK(pool.log().find(fmt::format("job {} has its device now", short_job)) != std::string::npos);
    wait_beside(pool, guest, nullptr);
    CHECK(pool.ask("cancel", {std::to_string(guest)}).code == 0);
    pool.wait_for(guest, "cancelled");
    INFO(pool.log());
    CHECK(pool.log().find("faulted") == std::string::npos);
    for (const auto& [job, spec] : {std::pair{host, mlp}, {guest, small}})
      check_like_alone(folder, pool, job, {spec, "--set", fmt::format("train.steps={}", last_stop(pool, job))});
    check_like_alone(folder, pool, short_job, {lenet});
  });
}

TEST_CASE("what no guest can have, and a tolerance that is none, are refused by name") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", long_job());
  for (const char* wrong : {"5", "x%", "-1%", "%"}) {
    const Ended ended = estrain({"pool", "serve", folder / "other", "--devices", "cpu", "--tolerate", wrong});
    CHECK(ended.code == 2);
    CHECK(ended.says("must be a part in per cent, such as 5%"));
  }
  Pool pool(folder / "pool", {"--devices", "cpu"});
  for (const Words& words : std::vector<Words>{{"--min", "1"}, {"--alone"}, {"--deadline", "4h"}}) {
    const Ended ended = pool.ask("submit", with({spec, "--background"}, words));
    CHECK(ended.code == 2);
    CHECK(ended.says("--background: " + words[0]));
  }
}

}  // namespace
}  // namespace estrain::testing
