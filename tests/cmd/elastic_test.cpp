// A job that takes part in elasticity by itself: offers taken or declined, devices given back in time, ESTs moved away
// from a slow worker; and none of it leaves a trace.

#include <doctest/doctest.h>

#include <csignal>
#include <cstdlib>
#include <optional>

#include "core/base/clock.h"
#include "core/base/files.h"
#include "job.h"
#include "job_specs.h"
#include "run_files.h"
#include "setting.h"
#include "throttled.h"

namespace estrain::testing {
namespace {

// Speeds measured by other runs are no part of a test.
struct OwnProfiles {
  explicit OwnProfiles(const ScratchFolder& folder) : file(folder / "profiles.json") {}
  const std::string file;
  const Setting seen{"ESTRAIN_PROFILES", file};
};

const Words kAutomatic = {"--set", "elastic.mode=auto"};

Json answer(const Words& command) {
  const Ended ended = estrain(with(command, {"--json"}));
  INFO(ended.shown());
  REQUIRE(ended.code == 0);
  return Json::parse(ended.text);
}

// Asks again while the launcher has not seen enough steps to judge.
Json offer(const Job& job, const std::string& devices) {
  Ended ended;
  wait_until("an answer to the offer", [&] {
    ended = estrain({"offer", job.run(), devices, "--json"});
    return !ended.says("nothing is known yet");
  });
  INFO(ended.shown());
  REQUIRE(ended.code == 0);
  return Json::parse(ended.text);
}

void check_ends_undisturbed(Job& job, const ScratchFolder& folder, const std::string& spec, const Words& size) {
  const Ended ended = job.launcher().wait(300);
  INFO(ended.shown());
  REQUIRE(ended.code == 0);
  const std::string whole = folder / "whole";
  REQUIRE(estrain(with({"train", spec, "--run", whole}, size)).code == 0);
  CHECK(difference(job.run(), whole).text == "");
  CHECK_FALSE(anyone_left(job.run()));
}

TEST_CASE("an offer is taken, and given back in time; a time line tells of it, and the bits do not") {
  const ScratchFolder folder;
  const OwnProfiles profiles_file(folder);
  const std::string spec = folder.write("job.toml", long_job()), run = folder / "run";
  const Words size = {"--set", "train.steps=1500", "--set", "data.batch=64"};
  Job job(spec, run, with(with({"--devices", "1"}, size), kAutomatic));
  job.reach(50);
  const Json taken = offer(job, "1");
  INFO(taken.dump());
  CHECK(taken.at("taken") == Json{"cpu"});
  CHECK(taken.at("step_seconds_estimated") < taken.at("step_seconds_now"));
  CHECK(job.workers().size() == 2);
  const Json status = job.status();
  CHECK(status.at("held") == Json{"cpu", "cpu"});
  CHECK(status.at("plan").at("estimated_step_seconds") == taken.at("step_seconds_estimated"));
  REQUIRE(status.at("decisions").size() >= 1);
  CHECK(status.at("decisions").at(0).at("what") == "offer of cpu: cpu taken");
  CHECK(estrain({"status", run}).says("offer of cpu: cpu taken"));

  const Json back = answer({"reclaim", run, "1", "--within", "2s"});
  INFO(back.dump());
  CHECK(back.at("held") == Json{"cpu"});
  if (back.contains("seconds")) CHECK(back.at("seconds") < 2);
  CHECK(job.workers().size() == 1);
  check_ends_undisturbed(job, folder, spec, size);
  CHECK(job.launcher().text().find("devices over time:") != std::string::npos);
  CHECK(events(run, "reclaimed").size() == 1);
  CHECK(events(run, "decision").size() >= 2);
}

TEST_CASE("a resize to auto moves the ESTs to where the planner thinks best, and says so when they are there") {
  const ScratchFolder folder;
  const OwnProfiles profiles_file(folder);
  const std::string spec = folder.write("job.toml", long_job()), run = folder / "run";
  const Words size = {"--set", "train.steps=1500", "--set", "data.batch=100"};
  Job job(spec, run, with({"--devices", "cpu=5,cpu=1"}, size));
  job.reach(1);
  Ended moved;
  wait_until("a resize to auto", [&] {
    moved = job.resize("auto");
    return !moved.says("nothing is known yet");
  });
  INFO(moved.shown());
  CHECK(moved.code == 0);
  const Json workers = job.status().at("workers");
  REQUIRE(workers.size() == 2);
  CHECK(workers.at(0).at("ests").at(1).get<int64_t>() <= 4);
  CHECK(workers.at(0).at("ests").at(1).get<int64_t>() >= 2);
  check_ends_undisturbed(job, folder, spec, size);
}

TEST_CASE("offers that are of no use, and requests that make no sense") {
  const ScratchFolder folder;
  const OwnProfiles profiles_file(folder);
  const std::string spec = folder.write("job.toml", long_job()), run = folder / "run";
  {
    Job job(spec, run, with({"--devices", "2", "--set", "job.ests=2"}, kAutomatic));
    job.reach(30);
    const Json declined = offer(job, "2");
    INFO(declined.dump());
    CHECK(declined.at("taken").empty());
    CHECK(declined.at("message").get<std::string>().starts_with("offer of cpu,cpu declined: "));
    CHECK(job.status().at("held").size() == 2);

    const auto refused = [&](const Words& command, const std::string& words) {
      const Ended ended = estrain(command);
      INFO(ended.shown());
      CHECK(ended.code == 2);
      CHECK(ended.says(words));
    };
    refused({"offer", run, "gpu"}, "\"gpu\" is no known device");
    refused({"offer", run, "0"}, "device list \"0\"");
    refused({"offer", run, "cpu:sse"}, "give different bits below D2");
    refused({"reclaim", run, "3"}, "the job does not hold cpu,cpu,cpu; it holds cpu,cpu");
    refused({"reclaim", run, "cpu:avx2"}, "the job does not hold cpu:avx2");
    refused({"reclaim", run, "1", "--within", "0s"}, "--within");
    refused({"reclaim", run, "1", "--within", "soon"}, "--within");
    CHECK(job.status().at("state") == "training");
    CHECK(job.stop().code == 0);
    refused({"offer", run, "1"}, "no job is running there");
  }
  const std::string manual = folder / "manual";
  Job job(spec, manual, {"--devices", "1"});
  job.reach(1);
  const Ended ended = estrain({"offer", manual, "1"});
  INFO(ended.shown());
  CHECK(ended.code == 2);
  CHECK(ended.says("elastic.mode = \"auto\""));
}

TEST_CASE("all devices are reclaimed: a checkpoint, exit code 75, and the run can go on") {
  const ScratchFolder folder;
  const OwnProfiles profiles_file(folder);
  const std::string spec = folder.write("job.toml", long_job()), run = folder / "run";
  Job job(spec, run, {"--devices", "2", "--set", "train.steps=300"});
  job.reach(20);
  const Ended reclaimed = estrain({"reclaim", run, "2", "--within", "5s"});
  INFO(reclaimed.shown());
  CHECK(reclaimed.code == 0);
  CHECK(reclaimed.says("stopped at step"));
  const Ended ended = job.launcher().wait();
  INFO(ended.shown());
  CHECK(ended.code == 75);
  CHECK(events(run, "stopped").at(0).at("why") == "all its devices were reclaimed");
  Job resumed = Job::resumed(run, {"--devices", "1"});
  check_ends_undisturbed(resumed, folder, spec, {"--set", "train.steps=300"});
}

TEST_CASE("a device is given back in time though a step takes longer, or its worker does not answer") {
  for (const bool stuck : {false, true}) {
    CAPTURE(stuck);
    const ScratchFolder folder;
    const OwnProfiles profiles_file(folder);
    const std::string spec = folder.write("job.toml", long_job()), run = folder / "run";
    const std::string batch = stuck ? "data.batch=32" : "data.batch=8000", steps = stuck ? "300" : "4";
    const Words size = {"--set", batch, "--set", "train.steps=" + steps};
    Job job(spec, run, with({"--devices", "2"}, size));
    job.reach(1);
    const pid_t last = job.workers().at(1);
    if (stuck) ::kill(last, SIGSTOP);
    const double within = 0.8;
    const int64_t begin = monotonic_ns();
    const Ended back = estrain({"reclaim", run, "1", "--within", "800ms", "--json"});
    const double took = seconds(monotonic_ns() - begin);
    INFO(back.shown());
    CHECK(back.code == 0);
    CHECK(took < within + 0.5);  // the answer comes when the others go on, which is later than the device is free
    CHECK(job.workers().size() == 1);
    CHECK(events(run, "resize").at(0).at("from") == "cpu,cpu");
    if (stuck) CHECK(::kill(last, 0) != 0);
    const Ended ended = job.launcher().wait(300);
    INFO(ended.shown());
    REQUIRE(ended.code == 0);
    REQUIRE(estrain(with({"train", spec, "--run", folder / "whole"}, size)).code == 0);
    CHECK(difference(run, folder / "whole").text == "");
    CHECK(events(run, "fault").empty());
  }
}

TEST_CASE("a reclaim comes first: a resize that warms up a worker is given up for it") {
  const ScratchFolder folder;
  const OwnProfiles profiles_file(folder);
  const std::string spec = folder.write("job.toml", long_job()), run = folder / "run";
  Job job(spec, run, {"--devices", "2", "--set", "train.steps=400"});
  job.reach(10);
  Command resize({"resize", run, "--devices", "4"});
  wait_until("added workers", [&] { return job.children().size() >= 5; });
  const Json back = answer({"reclaim", run, "1"});
  CHECK(back.at("held") == Json{"cpu"});
  const Ended given_up = resize.wait();
  INFO(given_up.shown());
  CHECK(given_up.code == 2);
  CHECK(given_up.says("reclaimed"));
  CHECK(job.workers().size() == 1);
  check_ends_undisturbed(job, folder, spec, {"--set", "train.steps=400"});
}

TEST_CASE("two reclaims at once: both get their device") {
  const ScratchFolder folder;
  const OwnProfiles profiles_file(folder);
  const std::string spec = folder.write("job.toml", long_job()), run = folder / "run";
  const Words size = {"--set", "data.batch=8000", "--set", "train.steps=6"};  // steps that outlast two requests
  Job job(spec, run, with({"--devices", "3"}, size));
  job.reach(1);
  Command first({"reclaim", run, "1", "--within", "20s"}), second({"reclaim", run, "1", "--within", "20s"});
  for (Command* reclaim : {&first, &second}) {
    const Ended ended = reclaim->wait();
    INFO(ended.shown());
    CHECK(ended.code == 0);
  }
  CHECK(job.status().at("held") == Json{"cpu"});
  CHECK(job.workers().size() == 1);
  check_ends_undisturbed(job, folder, spec, size);
}

TEST_CASE("a reclaim during the start is served when the job trains") {
  const ScratchFolder folder;
  const OwnProfiles profiles_file(folder);
  const std::string spec = folder.write("job.toml", long_job()), run = folder / "run";
  Job job(spec, run, {"--devices", "2", "--set", "train.steps=300"});
  wait_until("a launcher", [&] { return !job.status().empty(); });
  const Json back = answer({"reclaim", run, "1", "--within", "60s"});
  CHECK(back.at("held") == Json{"cpu"});
  CHECK(job.workers().size() == 1);
  check_ends_undisturbed(job, folder, spec, {"--set", "train.steps=300"});
}

TEST_CASE("ESTs move away from a worker that is slowed down, and back; no other devices, no other bits") {
  const ScratchFolder folder;
  const OwnProfiles profiles_file(folder);
  const std::string spec = folder.write("job.toml", long_job()), run = folder / "run";
  Job job(spec, run, with({"--devices", "2", "--set", "job.ests=8", "--set", "data.batch=200"}, kAutomatic));
  job.reach(60);
  const auto share_of = [&](pid_t pid) {
    const Json status = job.status();
    for (const Json& worker : status.at("workers")) {
      if (worker.at("pid") == pid)
        return worker.at("ests").at(1).get<int64_t>() - worker.at("ests").at(0).get<int64_t>();
    }
    return INT64_C(0);
  };
  const pid_t slow = job.workers().at(1);
  {
    const Throttled throttled(slow);
    wait_until(
        "fewer ESTs for the slow worker", [&] { return share_of(slow) <= 2; }, 60);
  }
  wait_until(
      "about equal shares again", [&] { return share_of(slow) >= 3; }, 60);
  wait_until("both moves in the time line", [&] { return events(run, "rebalance").size() >= 2; });  // once trained with
  CHECK(job.workers().size() == 2);
  CHECK(events(run, "resize").empty());
  CHECK(events(run, "fault").empty());
  CHECK(job.stop().code == 0);
  CHECK(job.launcher().wait().code == 75);
  const int64_t step = metric_steps(run).back();
  const Words size = {"--set", "job.ests=8", "--set", "data.batch=200", "--set", "train.steps=" + std::to_string(step)};
  REQUIRE(estrain(with({"train", spec, "--run", folder / "whole"}, size)).code == 0);
  CHECK(difference(run, folder / "whole").text == "");
}

TEST_CASE("growth that makes the job no faster is taken back, and what was offered let go of") {
  const ScratchFolder folder;
  const OwnProfiles profiles_file(folder);
  const std::string spec = folder.write("job.toml", long_job()), run = folder / "run";
  Job job(spec, run, with({"--devices", "1", "--set", "data.batch=64"}, kAutomatic));
  job.reach(50);
  CHECK(offer(job, "1").at("taken") == Json{"cpu"});
  {
    // Two workers, each a quarter of the time: slower than the one before. Equally slow, so that moving ESTs is no way.
    const Throttled first(job.workers().at(0)), second(job.workers().at(1));
    wait_until(
        "going back", [&] { return events(run, "resize").size() == 2; }, 60);
  }
  const Json decision = events(run, "decision").back();
  INFO(decision.dump());
  CHECK(decision.at("what") == "back to cpu");
  CHECK(job.status().at("held") == Json{"cpu"});
  CHECK(job.workers().size() == 1);
  CHECK(job.stop().code == 0);
}

// Seconds per mini-batch of a kind on its own, in a profile file; and the same scaled.
double& mini_batch_seconds(Json& profiles, const std::string& kind) {
  for (Json& entry : profiles.at("profiles")) {
    if (entry.at("work").at("device") == kind) return entry.at("mini_batch").at(0).at("seconds").get_ref<double&>();
  }
  throw std::runtime_error("no profile of " + kind);
}

TEST_CASE("a profile that is wrong by three times is followed, found out and mended") {
  const ScratchFolder folder;
  const OwnProfiles profiles_file(folder);
  const std::string spec = folder.write("job.toml", long_image_job());
  const Words size = {"--set", "job.determinism=D2", "--set", "job.ests=8"};
  for (const char* kind : {"cpu:avx2", "cpu:sse"}) {
    Words command = {"train", spec, "--run", folder / kind, "--devices", kind, "--set", "train.steps=200"};
    const Ended ended = estrain(with(command, size));
    INFO(ended.shown());
    REQUIRE(ended.code == 0);
  }
  Json profiles = Json::parse(read_file(profiles_file.file));
  const double right = mini_batch_seconds(profiles, "cpu:sse");
  mini_batch_seconds(profiles, "cpu:sse") = right / 3;
  write_file_atomically(profiles_file.file, profiles.dump());

  const std::string run = folder / "run";
  Job job(spec, run, with(with({"--devices", "cpu:avx2"}, size), kAutomatic));
  job.reach(20);
  const Json taken = offer(job, "cpu:sse");
  INFO(taken.dump());
  CHECK(taken.at("taken") == Json{"cpu:sse"});
  const Json first = events(run, "resize").at(0).at("ests");
  // Following it, the slow device is given most; what is measured then moves the ESTs, or takes the device back.
  wait_until(
      "another plan", [&] { return events(run, "rebalance").size() + events(run, "resize").size() >= 2; }, 60);
  const int64_t slow_at_first = events(run, "resize").at(0).at("to") == "cpu:sse,cpu:avx2" ? first.at(0) : first.at(1);
  CHECK(slow_at_first > 4);
  const Json status = job.status();
  for (const Json& worker : status.at("workers")) {
    if (worker.at("device") == "cpu:sse")
      CHECK(worker.at("ests").at(1).get<int64_t>() - worker.at("ests").at(0).get<int64_t>() < slow_at_first);
  }
  job.reach(job.step() + 300);
  CHECK(job.stop().code == 0);
  job.launcher().wait();
  Json mended = Json::parse(read_file(profiles_file.file));
  for (Json& entry : mended.at("profiles")) {  // whatever number of workers it was measured with
    if (entry.at("work").at("device") != "cpu:sse") continue;
    for (const Json& sample : entry.at("mini_batch")) {
      CAPTURE(sample.dump());
      CHECK(sample.at("seconds").get<double>() > 0.6 * right);
    }
  }
}

}  // namespace
}  // namespace estrain::testing
