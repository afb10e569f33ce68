// A job's own elasticity: it takes or declines offers, returns devices in time, and moves ESTs away from a slow worker,
// without any effect on the bits.

#include <doctest/doctest.h>

#include <csignal>
#include <cstdlib>
#include <optional>
#include <utility>

#include "core/base/clock.h"
#include "core/base/files/files.h"
#include "in_time.h"
#include "job.h"
#include "job_specs.h"
#include "run_files.h"
#include "setting.h"
#include "throttled.h"

namespace estrain::testing {
namespace {

// The test must not use speeds measured by other runs.
struct ProfilesIn {
  explicit ProfilesIn(const ScratchFolder& folder) : file(folder / "profiles.json") {}
  const std::string file;
  const Setting seen{"ESTRAIN_PROFILES", file};
};

const Words kAutomatic = {"--set", "elastic.mode=auto"};
const Words kTwoKinds = {"--set", "job.determinism=D2", "--set", "job.ests=8"};
constexpr int kNoticedSeconds = 60;  // until measurements have changed a plan

Json answer(const Words& command) {
  const Ended ended = estrain(with(command, {"--json"}));
  INFO(ended.shown());
  REQUIRE(ended.code == 0);
  return Json::parse(ended.text);
}

// Retries while the launcher has seen too few steps to judge.
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
  const Ended ended = job.launcher().wait();
  INFO(ended.shown());
  REQUIRE(ended.code == 0);
  const std::string whole = folder / "whole";
  REQUIRE(estrain(with({"train", spec, "--run", whole}, size)).code == 0);
  CHECK(difference(job.run(), whole).text == "");
  CHECK_FALSE(anyone_left(job.run()));
}

// Stops the job where it is, which takes less time than its end.
void check_stops_undisturbed(Job& job, const ScratchFolder& folder, const std::string& spec, const Words& size) {
  REQUIRE(job.stop().code == 0);
  CHECK(job.launcher().wait().code == 75);
  const Words steps = {"--set", "train.steps=" + std::to_string(last_step(job.run()))};
  CHECK(difference(job.run(), train_on(folder, spec, "1", with(size, steps))).text == "");
  CHECK_FALSE(anyone_left(job.run()));
}

void check_taken(Job& job, const Json& taken) {
  CHECK(taken.at("step_seconds_estimated") < taken.at("step_seconds_now"));
  CHECK(job.workers().size() == 2);
  const Json status = job.status();
  CHECK(status.at("held") == Json{"cpu", "cpu"});
  CHECK(status.at("plan").at("estimated_step_seconds") == taken.at("step_seconds_estimated"));
  REQUIRE(status.at("decisions").size() >= 1);
  CHECK(status.at("decisions").at(0).at("what") == "offer of cpu: cpu taken");
  CHECK(estrain({"status", job.run()}).says("offer of cpu: cpu taken"));
}

TEST_CASE("an offer is taken, and given back in time; a time line tells of it, and the bits do not") {
  in_time("an offer and a reclaim", [](Timed& timed) {
    const ScratchFolder folder;
    const ProfilesIn profiles_file(folder);
    const std::string spec = folder.write("job.toml", long_job()), run = folder / "run";
    const Words size = {"--set", "train.steps=1000000", "--set", "data.batch=64"};
    Job job(spec, run, with(with({"--devices", "1"}, size), kAutomatic));
    job.reach(50);
    const Json taken = offer(job, "1");
    INFO(taken.dump());
    if (timed.check(taken.at("taken") == Json{"cpu"}, "the offer pays: " + taken.dump())) {
      check_taken(job, taken);
      const Json back = answer({"reclaim", run, "1", "--within", "2s"});
      INFO(back.dump());
      CHECK(back.at("held") == Json{"cpu"});
      timed.check(back.value("seconds", 0.0) < 2, "it is given back within 2 s: " + back.dump());
      CHECK(job.workers().size() == 1);
      CHECK(events(run, "reclaimed").size() == 1);
    }
    check_stops_undisturbed(job, folder, spec, size);
    if (!timed.late().empty()) return;
    CHECK(job.launcher().text().find("devices over time:") != std::string::npos);
    CHECK(events(run, "decision").size() >= 2);
  });
}

TEST_CASE("a resize to auto moves the ESTs to where the planner thinks best, and says so when they are there") {
  in_time("shares by measured speeds", [](Timed& timed) {
    const ScratchFolder folder;
    const ProfilesIn profiles_file(folder);
    const std::string spec = folder.write("job.toml", long_job()), run = folder / "run";
    const Words size = {"--set", "train.steps=1000000", "--set", "data.batch=100"};
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
    const int64_t first = workers.at(0).at("ests").at(1).get<int64_t>();
    timed.check(first >= 2 && first <= 4, fmt::format("equal workers have {} and {} ESTs", first, 6 - first));
    check_stops_undisturbed(job, folder, spec, size);
  });
}

TEST_CASE("offers that are of no use, and requests that make no sense") {
  const ScratchFolder folder;
  const ProfilesIn profiles_file(folder);
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
    job.launcher().wait();
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
  const ProfilesIn profiles_file(folder);
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

// By a launcher whose second worker is within a long step, or stuck.
void give_back_in_time(bool stuck, Timed& timed) {
  const ScratchFolder folder;
  const ProfilesIn profiles_file(folder);
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
  // The answer comes when the other workers continue, later than the device becomes free.
  timed.check(took < within + 0.5, fmt::format("an answer within 1.3 s: it took {:.2f} s", took));
  CHECK(job.workers().size() == 1);
  CHECK(events(run, "resize").at(0).at("from") == "cpu,cpu");
  if (stuck) CHECK(::kill(last, 0) != 0);
  check_ends_undisturbed(job, folder, spec, size);
  CHECK(events(run, "fault").empty());
}

TEST_CASE("a device is given back in time though a step takes longer") {
  in_time("a reclaim in the middle of a step", [](Timed& timed) { give_back_in_time(false, timed); });
}

TEST_CASE("a device is given back in time though its worker does not answer") {
  in_time("a reclaim of a stuck worker", [](Timed& timed) { give_back_in_time(true, timed); });
}

TEST_CASE("a reclaim comes first: a resize that warms up a worker is given up for it") {
  in_time("a reclaim while workers warm up", [](Timed& timed) {
    const ScratchFolder folder;
    const ProfilesIn profiles_file(folder);
    const std::string spec = folder.write("job.toml", long_job()), run = folder / "run";
    Job job(spec, run, {"--devices", "2", "--set", "train.steps=400"});
    job.reach(10);
    Command resize({"resize", run, "--devices", "4"});
    wait_until("added workers", [&] { return job.children().size() >= 5; });
    const Json back = answer({"reclaim", run, "1"});
    const Ended given_up = resize.wait();
    INFO(given_up.shown());
    if (timed.check(given_up.code != 0, "the reclaim comes before the resize is over")) {
      CHECK(back.at("held") == Json{"cpu"});
      CHECK(given_up.code == 2);
      CHECK(given_up.says("reclaimed"));
      CHECK(job.workers().size() == 1);
    }
    check_ends_undisturbed(job, folder, spec, {"--set", "train.steps=400"});
  });
}

TEST_CASE("two reclaims at once: both get their device") {
  const ScratchFolder folder;
  const ProfilesIn profiles_file(folder);
  const std::string spec = folder.write("job.toml", long_job()), run = folder / "run";
  const Words size = {"--set", "data.batch=8000", "--set", "train.steps=6"};  // steps longer than two requests
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
  const ProfilesIn profiles_file(folder);
  const std::string spec = folder.write("job.toml", long_job()), run = folder / "run";
  Job job(spec, run, {"--devices", "2", "--set", "train.steps=300"});
  wait_until("a launcher", [&] { return !job.status().empty(); });
  const Json back = answer({"reclaim", run, "1", "--within", "60s"});
  CHECK(back.at("held") == Json{"cpu"});
  CHECK(job.workers().size() == 1);
  check_ends_undisturbed(job, folder, spec, {"--set", "train.steps=300"});
}

TEST_CASE("ESTs move away from a worker that is slowed down, and back; no other devices, no other bits") {
  in_time("ESTs away from a slow worker, and back", [](Timed& timed) {
    const ScratchFolder folder;
    const ProfilesIn profiles_file(folder);
    const std::string spec = folder.write("job.toml", long_job()), run = folder / "run";
    Job job(spec, run, with({"--devices", "2", "--set", "job.ests=8", "--set", "data.batch=200"}, kAutomatic));
    job.reach(60);
    const auto share_of = [&](pid_t pid) {
      const Json status = job.status();
      for (const Json& worker : status.value("workers", Json::array())) {
        if (worker.at("pid") == pid)
          return worker.at("ests").at(1).get<int64_t>() - worker.at("ests").at(0).get<int64_t>();
      }
      return INT64_C(4);
    };
    const pid_t slow = job.workers().at(1);
    {
      const Throttled throttled(slow);
      timed.check(comes_true([&] { return share_of(slow) <= 2; }, kNoticedSeconds), "fewer ESTs for the slow worker");
    }
    if (timed.late().empty()) {
      timed.check(comes_true([&] { return share_of(slow) >= 3; }, kNoticedSeconds), "about equal shares again");
      // Once trained with.
      timed.check(comes_true([&] { return events(run, "rebalance").size() >= 2; }, kNoticedSeconds), "both noted");
    }
    CHECK(job.workers().size() == 2);
    CHECK(events(run, "resize").empty());
    CHECK(events(run, "fault").empty());
    CHECK(job.stop().code == 0);
    CHECK(job.launcher().wait().code == 75);
    const std::string steps = "train.steps=" + std::to_string(last_step(run));
    const Words size = {"--set", "job.ests=8", "--set", "data.batch=200", "--set", steps};
    REQUIRE(estrain(with({"train", spec, "--run", folder / "whole"}, size)).code == 0);
    CHECK(difference(run, folder / "whole").text == "");
  });
}

TEST_CASE("growth that makes the job no faster is taken back, and what was offered let go of") {
  in_time("growth taken back", [](Timed& timed) {
    const ScratchFolder folder;
    const ProfilesIn profiles_file(folder);
    const std::string spec = folder.write("job.toml", long_job()), run = folder / "run";
    Job job(spec, run, with({"--devices", "1", "--set", "data.batch=64"}, kAutomatic));
    job.reach(50);
    const Json taken = offer(job, "1");
    if (timed.check(taken.at("taken") == Json{"cpu"}, "the offer pays: " + taken.dump())) {
      // Two workers, each throttled to a quarter: slower than the previous one. Both are equally slow, so moving ESTs
      // does not help.
      const Throttled first(job.workers().at(0)), second(job.workers().at(1));
      timed.check(comes_true([&] { return events(run, "resize").size() == 2; }, kNoticedSeconds), "it goes back");
    }
    if (timed.late().empty()) {
      const Json decision = events(run, "decision").back();
      INFO(decision.dump());
      CHECK(decision.at("what") == "back to cpu");
      CHECK(job.status().at("held") == Json{"cpu"});
      CHECK(job.workers().size() == 1);
    }
    CHECK(job.stop().code == 0);
    CHECK(job.launcher().wait().code == 75);
  });
}

// Seconds per mini-batch of a kind alone, in a profile file; null if a busy machine let the run measure nothing.
double* mini_batch_seconds(Json& profiles, const std::string& kind) {
  for (Json& entry : profiles.at("profiles")) {
    if (entry.at("work").at("device") == kind) return entry.at("mini_batch").at(0).at("seconds").get_ptr<double*>();
  }
  return nullptr;
}

// True speeds of both kinds, except that the slower kind's is a third of its true value, which is returned.
std::optional<double> write_wrong_profile(const ScratchFolder& folder, const std::string& profiles_file,
                                          const std::string& spec, Timed& timed) {
  for (const char* kind : {"cpu:avx2", "cpu:sse"}) {
    Words command = {"train", spec, "--run", folder / kind, "--devices", kind, "--set", "train.steps=200"};
    const Ended ended = estrain(with(command, kTwoKinds));
    INFO(ended.shown());
    REQUIRE(ended.code == 0);
  }
  Json profiles = Json::parse(read_file(profiles_file));
  double* const seconds = mini_batch_seconds(profiles, "cpu:sse");
  if (!timed.check(seconds != nullptr, "a profile of cpu:sse")) return std::nullopt;
  const double right = std::exchange(*seconds, *seconds / 3);
  write_file_atomically(profiles_file, profiles.dump());
  return right;
}

// For any number of workers in the measurement.
void check_mended(const std::string& profiles_file, double right, Timed& timed) {
  const Json mended = Json::parse(read_file(profiles_file));
  for (const Json& entry : mended.at("profiles")) {
    if (entry.at("work").at("device") != "cpu:sse") continue;
    for (const Json& sample : entry.at("mini_batch"))
      timed.check(sample.at("seconds").get<double>() > 0.6 * right, "a mended profile: " + sample.dump());
  }
}

TEST_CASE("a profile that is wrong by three times is followed, found out and mended") {
  in_time("a wrong profile", [](Timed& timed) {
    const ScratchFolder folder;
    const ProfilesIn profiles_file(folder);
    const std::string spec = folder.write("job.toml", long_image_job()), run = folder / "run";
    const std::optional<double> right = write_wrong_profile(folder, profiles_file.file, spec, timed);
    if (!right) return;
    Job job(spec, run, with(with({"--devices", "cpu:avx2"}, kTwoKinds), kAutomatic));
    job.reach(20);
    const Json taken = offer(job, "cpu:sse");
    if (timed.check(taken.at("taken") == Json{"cpu:sse"}, "the offer pays: " + taken.dump())) {
      // This profile gives the slow device most ESTs; measurements then move them or remove the device.
      const auto changes = [&] { return events(run, "rebalance").size() + events(run, "resize").size(); };
      timed.check(comes_true([&] { return changes() >= 2; }, kNoticedSeconds), "another plan");
      const Json grown = events(run, "resize").at(0), first = grown.at("ests");
      if (!timed.check(first.size() == 2, "both devices have ESTs: " + grown.dump())) return;
      const int64_t slow_at_first = grown.at("to") == "cpu:sse,cpu:avx2" ? first.at(0) : first.at(1);
      timed.check(slow_at_first > 4, "most ESTs for the slow device: " + grown.dump());
      const Json status = job.status();
      for (const Json& worker : status.at("workers")) {
        if (worker.at("device") == "cpu:sse")
          timed.check(worker.at("ests").at(1).get<int64_t>() - worker.at("ests").at(0).get<int64_t>() < slow_at_first,
                      "then fewer: " + worker.dump());
      }
      job.reach(job.step() + 300);
    }
    CHECK(job.stop().code == 0);
    CHECK(job.launcher().wait().code == 75);
    if (timed.late().empty()) check_mended(profiles_file.file, *right, timed);
  });
}

}  // namespace
}  // namespace estrain::testing
