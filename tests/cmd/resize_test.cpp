// Changing the devices of a running job: its process id stays, the change is visible, and the bits equal those of an
// undisturbed run.

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <random>
#include <set>

#include "held_starts.h"
#include "job.h"
#include "job_specs.h"
#include "run_files.h"

namespace estrain::testing {
namespace {

// An undisturbed run to `steps` on one worker.
std::string undisturbed(const ScratchFolder& folder, const std::string& spec, int64_t steps, const Words& more = {}) {
  const std::string run = folder / "undisturbed";
  const Ended ended =
      estrain(with({"train", spec, "--run", run, "--set", "train.steps=" + std::to_string(steps)}, more));
  INFO(ended.shown());
  REQUIRE(ended.code == 0);
  return run;
}

int64_t stop_and_count(Job& job) {
  const Ended stop = job.stop();
  INFO(stop.shown());
  REQUIRE(stop.code == 0);
  const Ended train = job.launcher().wait();
  INFO(train.shown());
  CHECK(train.code == 75);
  return last_step(job.run());
}

class Schedule {
 public:
  Schedule(unsigned seed, int64_t ests) : random_(seed), ests_(ests) {}

  int64_t steps_until_next() { return uniform(1, 25); }
  // Any contiguous split: "cpu=2,cpu=1,cpu=3".
  std::string devices() {
    std::string list;
    for (int64_t left = ests_; left > 0;) {
      const int64_t size = uniform(1, left);
      list += (list.empty() ? "cpu=" : ",cpu=") + std::to_string(size);
      left -= size;
    }
    return list;
  }

 private:
  int64_t uniform(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }

  std::mt19937 random_;
  const int64_t ests_;
};

void check_schedule(const std::string& text, int64_t ests, unsigned seed, Words devices) {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", text);
  Schedule schedule(seed, ests);
  while (devices.size() < 6) devices.push_back(schedule.devices());
  Job job(spec, folder / "run", {"--devices", "2"});
  const pid_t pid = job.pid();
  int64_t step = 3;
  for (const std::string& list : devices) {
    CAPTURE(seed);
    CAPTURE(list);
    job.reach(step);
    const Ended resize = job.resize(list);
    INFO(resize.shown());
    REQUIRE(resize.code == 0);
    CHECK(resize.says("stood still"));
    CHECK(job.status().value("pid", pid) == pid);
    step = job.step() + schedule.steps_until_next();
  }
  job.reach(step);
  const int64_t last = stop_and_count(job);
  const std::vector<Json> resizes = events(job.run(), "resize"), stages = events(job.run(), "stage");
  REQUIRE(resizes.size() == devices.size());
  CHECK(stages.size() == devices.size() + 1);
  for (size_t i = 1; i < resizes.size(); ++i) CHECK(resizes[i].at("step") > resizes[i - 1].at("step"));
  CHECK(metric_steps(job.run()) == first_steps(last));
  CHECK(fingerprint_steps(job.run()) == first_steps(last));
  CHECK(difference(job.run(), undisturbed(folder, spec, last)).text == "");
}

TEST_CASE("six resizes at random steps, the same set again and one to all and back among them: no trace") {
  check_schedule(long_job(), 6, 1, {"1", "6", "1", "cpu", "cpu=1,cpu=4,cpu=1"});
}

TEST_CASE("six random resizes of a job with dropout and clipping: no trace") { check_schedule(long_job(), 6, 2, {}); }

TEST_CASE("six random resizes of a job with augmentation and momentum: no trace") {
  check_schedule(long_image_job(), 5, 3, {});
}

TEST_CASE("at D0 a resize leaves its trace, from its step on") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", long_job());
  const Words d0 = {"--devices", "2", "--set", "job.determinism=D0"};
  Job job(spec, folder / "run", d0);
  job.reach(5);
  REQUIRE(job.resize("cpu=5,cpu=1").code == 0);
  job.reach(job.step() + 5);
  const int64_t last = stop_and_count(job);
  const Difference found = difference(job.run(), undisturbed(folder, spec, last, d0));
  CHECK(found.first_step == events(job.run(), "resize").at(0).at("step").get<int64_t>() + 1);
  const Ended itself = estrain({"verify", job.run(), job.run()});  // checkpoints against fingerprints
  INFO(itself.shown());
  CHECK(itself.code == 0);
}

TEST_CASE("an added worker that dies while it warms up: the job continues with the old set and says so") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", long_job());
  HeldStarts starts;
  Job job(spec, folder / "run");
  job.reach(5);
  const std::vector<pid_t> before = job.workers();
  starts.begin();
  Command resize({"resize", job.run(), "--devices", "3"});
  ::kill(starts.next(), SIGKILL);
  const Ended refused = resize.wait();
  starts.end();
  INFO(refused.shown());
  CHECK(refused.code == 1);
  CHECK(refused.says("SIGKILL"));
  CHECK(refused.says("continues as before"));
  CHECK(refused.says("worker-"));  // the log
  job.reach(job.step() + 10);
  CHECK(job.workers() == before);
  CHECK(job.launcher().text().find("continues as before") != std::string::npos);
  REQUIRE(events(job.run(), "resize_failed").size() == 1);
  CHECK(events(job.run(), "resize").empty());
  CHECK(job.resize("3").code == 0);  // it can still be resized
  job.reach(job.step() + 5);
  const int64_t last = stop_and_count(job);
  CHECK(difference(job.run(), undisturbed(folder, spec, last)).text == "");
}

TEST_CASE(
    "a second resize and a stop while a worker warms up: the former is refused, the latter gives the first resize up") {
  const ScratchFolder folder;
  HeldStarts starts;
  Job job(folder.write("job.toml", long_job()), folder / "run");
  job.reach(5);
  starts.begin();
  Command resize({"resize", job.run(), "--devices", "2"});
  starts.next();
  const Ended second = job.resize("3");
  INFO(second.shown());
  CHECK(second.code == 2);
  CHECK(second.says("another resize is under way"));
  stop_and_count(job);
  const Ended refused = resize.wait();
  INFO(refused.shown());
  CHECK(refused.code == 75);
  CHECK(refused.says("given up"));
  CHECK(refused.says("being stopped"));
}

TEST_CASE("resizes that cannot be are refused with a sentence and disturb nothing") {
  const ScratchFolder folder;
  Job job(folder.write("job.toml", long_job()), folder / "run");
  job.reach(2);
  struct Refusal {
    std::string devices;
    int code;
    std::string says;
  };
  const Refusal refusals[] = {{"7", 2, "7"},
                              {"cpu=3,cpu=2", 2, "hosts 5 ESTs, the job has 6"},
                              {"cpu=3,cpu", 2, "some devices say how many"},
                              {"cpu,cpu:avx2", 2, "different kinds"},
                              {"gpu", 2, "\"gpu\" is no known device"},
                              {"cuda:0,cuda:0", 2, "cuda:0 stands in the device list more than once"},
                              {"0", 2, "\"0\""},
                              {"", 2, "empty"}};
  for (const Refusal& refusal : refusals) {
    const Ended ended = job.resize(refusal.devices);
    INFO(refusal.devices, " ", ended.shown());
    CHECK(ended.code == refusal.code);
    CHECK(ended.says(refusal.says));
  }
  job.reach(job.step() + 3);
  CHECK(events(job.run(), "stage").size() == 1);
  stop_and_count(job);
}

// The process may open this many more descriptors, besides those it inherited.
void leave_descriptors(pid_t pid, rlim_t more) {
  std::set<rlim_t> open;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd"))
    open.insert(std::stoul(entry.path().filename().string()));
  rlimit limit{};
  REQUIRE(::prlimit(pid, RLIMIT_NOFILE, nullptr, &limit) == 0);
  for (limit.rlim_cur = 0; more > 0; ++limit.rlim_cur) more -= open.contains(limit.rlim_cur) ? 0 : 1;
  REQUIRE(::prlimit(pid, RLIMIT_NOFILE, &limit, nullptr) == 0);
}

TEST_CASE("workers that cannot all be started: the resize is given up, and another one works") {
  const ScratchFolder folder;
  Job job(folder.write("job.toml", long_job()), folder / "run", {"--devices", "1"});
  job.reach(5);
  leave_descriptors(job.pid(), 6);
  const Ended too_many = job.resize("6");
  INFO(too_many.shown());
  CHECK(too_many.code == 1);
  CHECK(too_many.says("the job continues as before: "));
  CHECK(too_many.says("Too many open files"));
  CHECK(job.resize("2").code == 0);
  CHECK(job.workers().size() == 2);
  CHECK(job.stop().code == 0);
}

TEST_CASE("a run directory with a very long path: trains, resizes, stops") {
  const ScratchFolder folder;
  std::string run = folder.path();
  for (int i = 0; i < 6; ++i) run += "/" + std::string(80, static_cast<char>('a' + i));
  Job job(folder.write("job.toml", long_job()), run);
  job.reach(3);
  const Ended resize = job.resize("2");
  INFO(resize.shown());
  CHECK(resize.code == 0);
  CHECK(job.workers().size() == 2);
  stop_and_count(job);
}

}  // namespace
}  // namespace estrain::testing
