// A resume that trains longer than the run: more steps, more patience, another schedule for the steps to come.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <csignal>
#include <filesystem>

#include "core/state/record/logs/metrics.h"
#include "edited_file.h"
#include "job.h"
#include "run_files.h"

namespace estrain::testing {
namespace {

namespace fs = std::filesystem;

std::string job_to_lengthen(const std::string& tables) {
  return "[job]\nname = \"small\"\nseed = 3\nests = 4\n[model]\nname = \"mlp\"\nhidden = [24]\ndropout = 0.2\n"
         "classes = 10\n[data]\nformat = \"synthetic\"\nshape = [24]\nsamples = 96\nbatch = 4\n"
         "[optimizer]\nname = \"sgd\"\nlr = 0.5\nmomentum = 0.9\n[train]\nsteps = 12\neval_every = 2\n" +
         tables;
}

const std::string kCycle = "[schedule]\nname = \"onecycle\"\nunit = \"step\"\nperiod = 12\n";

Words set_keys(const Words& values) {
  Words words;
  for (const std::string& value : values) words.insert(words.end(), {"--set", value});
  return words;
}

Ended resume_with(const std::string& run, const Words& values, const std::string& devices = "1") {
  return estrain(with({"train", "--resume", "--run", run, "--devices", devices}, set_keys(values)));
}

std::vector<double> rates_after(const std::string& run, int64_t from) {
  std::vector<double> rates;
  for (const record::StepRecord& step : record::read_metrics(run + "/metrics.jsonl").steps)
    if (step.step.value > from) rates.push_back(step.lr);
  return rates;
}

TEST_CASE("a job that ended early trains on with more patience, as if the patience had been so from the beginning") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", job_to_lengthen("[early_stop]\npatience = 1\n"));
  const Words longer = set_keys({"train.steps=400"});
  const std::string run = train_on(folder, spec, "1", longer);
  const int64_t end = last_step(run);
  REQUIRE(end < 400);
  const Ended none = resume_with(run, {"early_stop.patience=0"});
  INFO(none.shown());
  CHECK(none.code == 2);
  CHECK(none.says("the spec has changed since the run began: early_stop.patience"));
  const Ended resumed = resume_with(run, {"early_stop.patience=4"}, "3");
  INFO(resumed.shown());
  REQUIRE(resumed.code == 0);
  CHECK(last_step(run) > end);
  const std::string whole = train_on(folder, spec, "1", with(longer, set_keys({"early_stop.patience=4"})));
  CHECK(read_file(run + "/fingerprints") == read_file(whole + "/fingerprints"));
  CHECK(checkpoint_difference(latest_checkpoint(run), latest_checkpoint(whole)) == "");
  CHECK(changes_of(run).empty());
}

TEST_CASE("one cycle is made longer by a resume that asks for it: on record, with the longer cycle's rates") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", job_to_lengthen(kCycle));
  const std::string run = train_on(folder, spec, "1");
  const Ended short_cycle = resume_with(run, {"train.steps=20"});
  INFO(short_cycle.shown());
  CHECK(short_cycle.code == 2);
  CHECK(short_cycle.says("schedule.period: the cycle ends after 12 steps, the job after 20"));
  CHECK(short_cycle.says("set schedule.period to 20"));
  const Ended longer = resume_with(run, {"train.steps=20", "schedule.period=20"});
  INFO(longer.shown());
  REQUIRE(longer.code == 0);
  CHECK(
      longer.says("continues from step 12 with another schedule, counted from the job's beginning: schedule.period = "
                  "20 instead of 12"));
  REQUIRE(changes_of(run).size() == 1);
  const Json change = changes_of(run)[0];
  CHECK(change.at("change") == "schedule");
  CHECK(change.at("step") == 12);
  CHECK(change.at("was") == Json{{"schedule.period", "12"}});
  CHECK(change.at("is") == Json{{"schedule.period", "20"}});
  CHECK(events(run, "schedule_changed").size() == 1);
  const std::string whole = train_on(folder, spec, "1", set_keys({"train.steps=20", "schedule.period=20"}));
  CHECK(rates_after(run, 12) == rates_after(whole, 12));
  CHECK(rates_after(run, 0) != rates_after(whole, 0));
  CHECK(resume_with(run, {"train.steps=20"}).code == 0);  // the longer cycle is the run's
  CHECK(changes_of(run).size() == 1);
}

TEST_CASE("a longer cycle: resizes, a kill and a repeated resume leave no trace") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", job_to_lengthen(kCycle));
  const Words forever = {"train.steps=1000000", "train.eval_every=never", "schedule.period=1000000"};
  const std::string run = train_on(folder, spec, "3", set_keys({"train.eval_every=never"}));
  {
    Job job = Job::resumed(run, with({"--devices", "2"}, set_keys(forever)));
    job.reach(15);
    const Ended resized = job.resize("3");
    INFO(resized.shown());
    CHECK(resized.code == 0);
    job.reach(job.step() + 3);
    job.launcher().signal(SIGKILL);
    (void)job.launcher().wait();
  }
  wait_until("everybody has left", [&] { return !anyone_left(run); });
  // As if the state had not been saved: the change is on record, and the steps are repeated.
  for (const int64_t step : checkpoint_steps(run))
    if (step > 12) fs::remove(fmt::format("{}/checkpoints/step-{:09}.h5", run, step));
  const Ended repeated = resume_with(run, {"train.steps=24"}, "2");
  INFO(repeated.shown());
  REQUIRE(repeated.code == 0);
  CHECK(changes_of(run).size() == 1);

  const std::string same = train_on(folder, spec, "1", set_keys({"train.eval_every=never"}));
  REQUIRE(resume_with(same, {"train.steps=24", "schedule.period=1000000"}).code == 0);
  CHECK(difference(run, same).text == "");
}

TEST_CASE("a run that goes back to a checkpoint from before the change makes the change there by itself, on record") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", job_to_lengthen(kCycle));
  const Words often = set_keys({"checkpoint.every=8", "checkpoint.keep=9"});
  const std::string run = train_on(folder, spec, "2", often);
  REQUIRE(resume_with(run, {"train.steps=20", "schedule.period=20"}).code == 0);
  for (const int64_t step : checkpoint_steps(run))
    if (step > 8) fs::remove(fmt::format("{}/checkpoints/step-{:09}.h5", run, step));
  const std::string kept = read_file(run + "/changes.jsonl");
  write_file_atomically(run + "/changes.jsonl", "");  // without the record the change is a user's edit
  const Ended edited = resume_with(run, {});
  INFO(edited.shown());
  CHECK(edited.code == 2);
  write_file_atomically(run + "/changes.jsonl", kept);
  const Ended again = resume_with(run, {});
  INFO(again.shown());
  REQUIRE(again.code == 0);
  CHECK(again.says("continues from step 8 with another schedule"));
  CHECK(last_step(run) == 20);
  REQUIRE(changes_of(run).size() == 1);
  CHECK(changes_of(run)[0].at("step") == 8);

  const std::string same = train_on(folder, spec, "1", with(often, set_keys({"train.steps=8"})));
  REQUIRE(resume_with(same, {"train.steps=20", "schedule.period=20"}).code == 0);
  CHECK(difference(run, same).text == "");
}

TEST_CASE("a longer run says what follows the end of its schedule") {
  const ScratchFolder folder;
  const std::string spec =
      folder.write("job.toml", job_to_lengthen("[schedule]\nname = \"cosine\"\nunit = \"step\"\nperiod = 12\n"));
  const std::string run = train_on(folder, spec, "1");
  const Ended longer = resume_with(run, {"train.steps=14"});
  INFO(longer.shown());
  REQUIRE(longer.code == 0);
  CHECK(longer.says("schedule \"cosine\" has a length of its own: after 12 steps the rate rises again"));
  CHECK(changes_of(run).empty());
  const Ended again = resume_with(run, {"train.steps=14"});
  CHECK(again.code == 0);
  CHECK_FALSE(again.says("has a length of its own"));
  const Words slower = {"train.steps=16", "schedule.period=40", "schedule.eta_min=0.1"};
  const Ended changed = resume_with(run, slower);
  INFO(changed.shown());
  REQUIRE(changed.code == 0);
  CHECK(rates_after(run, 14) == rates_after(train_on(folder, spec, "2", set_keys(slower)), 14));
}

TEST_CASE("a schedule that is edited is refused by name, with the way to change it") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", job_to_lengthen(kCycle));
  const std::string run = train_on(folder, spec, "1"), job = run + "/job.toml", kept = read_file(job);
  edit(job, "period = 12", "period = 20");
  const Ended edited = resume_with(run, {"train.steps=20"});
  INFO(edited.shown());
  CHECK(edited.code == 2);
  CHECK(edited.says("the spec has changed since the run began: schedule.period"));
  CHECK(edited.says("change the schedule for the steps after step 12: --set schedule.period=20; or start a new run"));
  write_file_atomically(job, kept);
  const Ended both = resume_with(run, {"schedule.period=20", "optimizer.lr=0.1"});
  INFO(both.shown());
  CHECK(both.code == 2);
  CHECK(both.says("the spec has changed since the run began: optimizer.lr"));
  CHECK(changes_of(run).empty());
}

}  // namespace
}  // namespace estrain::testing
