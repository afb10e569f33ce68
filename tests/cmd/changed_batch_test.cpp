// Changes of the batch size and learning rates of a job: on record before a step is trained with them, and part of the
// job, so that a run without a disturbance that is given the same changes has the same bits.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "core/base/files/files.h"
#include "in_time.h"
#include "job.h"
#include "job_specs.h"
#include "run_files.h"
#include "tests/program_file.h"

namespace estrain::testing {
namespace {

namespace fs = std::filesystem;

const std::string kAdaptive = "[elastic]\nbatch = \"adaptive\"\n";
const Words kWithoutEnd = {"--set", "train.steps=1000000", "--set", "train.eval_every=5",
                           "--set", "checkpoint.keep=1000"};

// The step after which it was changed.
int64_t change_batch(const std::string& run, const Words& options) {
  const Ended ended = estrain(with({"change", run, "--json"}, options));
  INFO(ended.shown());
  REQUIRE(ended.code == 0);
  return parse_json(ended.text, "answer").at("step").get<int64_t>();
}

int64_t stop_at(Job& job) {
  REQUIRE(job.stop().code == 0);
  CHECK(job.launcher().wait().code == 75);
  return last_step(job.run());
}

// A run of its own with the changes on record in `run`, on one worker.
std::string repeated(const ScratchFolder& folder, const std::string& run, int64_t steps) {
  const std::string other = folder / "repeated";
  fs::remove_all(other);
  const Ended ended = estrain(
      {"train", run + "/job.toml", "--run", other, "--devices", "1", "--set", "train.steps=" + std::to_string(steps)});
  INFO(ended.shown());
  REQUIRE(ended.code == 0);
  return other;
}

void train_to_end(const std::string& run, int64_t steps) {
  const Ended ended = estrain({"train", "--resume", "--run", run, "--set", "train.steps=" + std::to_string(steps)});
  INFO(ended.shown());
  REQUIRE(ended.code == 0);
}

void check_same(const std::string& run, const std::string& other) {
  const Ended verified = estrain({"verify", run, other});
  INFO(verified.shown());
  CHECK(verified.code == 0);
  CHECK_FALSE(verified.says("the change logs differ"));
}

void check_changes(const std::string& text, const Words& more) {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", text + kAdaptive), run = folder / "run";
  std::vector<int64_t> after;
  {
    Job job(spec, run, with(with({"--devices", "2"}, kWithoutEnd), more));
    job.reach(4);
    const pid_t pid = job.pid();
    after.push_back(change_batch(run, {"--batch", "7", "--lr-factor", "1.5"}));
    job.reach(after.back() + 3);
    CHECK(job.status().value("pid", 0) == pid);
    CHECK(job.status().value("batch", 0) == 7);
    CHECK(change_batch(run, {"--batch", "7"}) == after.back());  // it is on record
    REQUIRE(job.resize("3").code == 0);
    job.reach(job.step() + 2);
    after.push_back(change_batch(run, {"--lr-factor", "0.3"}));
    job.reach(after.back() + 4);
    job.launcher().kill();
  }
  {
    Job job = Job::resumed(run, {"--devices", "3"});
    job.reach(job.step() + 2);
    stop_at(job);
  }
  after.push_back(change_batch(run, {"--batch", "3"}));
  CHECK(after.back() == last_step(run));
  const int64_t last = after.back() + 6;
  train_to_end(run, last);

  const std::vector<Json> changes = changes_of(run);
  REQUIRE(changes.size() == 3);
  for (size_t i = 0; i < 3; ++i) {
    CHECK(changes[i].at("change") == "batch");
    CHECK(changes[i].at("step") == after[i]);
    CHECK(changes[i].at("batch") == (i < 2 ? 7 : 3));
    CHECK(changes[i].at("lr_factor") == (i < 1 ? 1.5 : 0.3));
  }
  CHECK(metric_steps(run) == first_steps(last));
  const std::string other = repeated(folder, run, last);
  CHECK(difference(run, other).text == "");
  check_same(run, other);
}

TEST_CASE("a job whose batch is changed as it runs, killed, resized and resumed: a repeat has its bits") {
  check_changes(lenet_job(), {});
}

TEST_CASE("the same with clipping, dropout, groups, and a rate that follows evaluations") {
  std::string text = mlp_job();
  const size_t schedule = text.find("[schedule]"), train = text.find("[train]");
  text.replace(schedule, train - schedule, "[schedule]\nname = \"plateau\"\npatience = 0\n");
  check_changes(text, {"--set", "data.drop_last=true"});
}

// Changes keep the workers, in the bits of a run that stops for each change and resumes.
void check_kept(const ScratchFolder& folder, const std::string& text) {
  const std::string spec = folder.write("job.toml", text + kAdaptive), run = folder / "run";
  in_time("a change of the batch", [&](Timed& timed) {
    fs::remove_all(run);
    std::vector<int64_t> after;
    int64_t last = 0;
    {
      Job job(spec, run, with({"--devices", "2"}, kWithoutEnd));
      job.reach(4);
      const std::vector<pid_t> workers = job.workers();
      const pid_t scribe = job.scribe();
      for (const Words& change :
           std::vector<Words>{{"--batch", "7", "--lr-factor", "1.5"}, {"--batch", "4"}, {"--lr-factor", "0.5"}}) {
        const Ended ended = estrain(with({"change", run, "--json"}, change));
        INFO(ended.shown());
        REQUIRE(ended.code == 0);
        const Json answer = parse_json(ended.text, "answer");
        after.push_back(answer.at("step").get<int64_t>());
        timed.check(answer.at("stood_still_seconds").get<double>() < 0.2, "a change of the batch stands still");
        job.reach(after.back() + 3);
      }
      CHECK(job.workers() == workers);
      CHECK(job.scribe() == scribe);
      CHECK(job.status().value("batch", 0) == 4);
      CHECK(job.status().value("lr_factor", 0.0) == 0.5);
      last = stop_at(job);
    }
    CHECK(events(run, "start").size() == 1);
    CHECK(events(run, "stopped").size() == 1);
    CHECK(events(run, "batch_changed").size() == 3);
    for (const int64_t step : after) CHECK(std::ranges::count(checkpoint_steps(run), step) == 1);
    last += 2;
    train_to_end(run, last);

    // The same changes, each while the run rests.
    const std::string other = folder / "rests";
    fs::remove_all(other);
    const auto train_to = [&](int64_t step) {
      const Words of_run = fs::exists(other) ? Words{"--resume"} : Words{spec, "--set", "train.eval_every=5"};
      const Ended ended =
          estrain(with(with({"train"}, of_run), {"--run", other, "--set", "train.steps=" + std::to_string(step)}));
      INFO(ended.shown());
      REQUIRE(ended.code == 0);
    };
    train_to(after[0]);
    CHECK(change_batch(other, {"--batch", "7", "--lr-factor", "1.5"}) == after[0]);
    train_to(after[1]);
    CHECK(change_batch(other, {"--batch", "4"}) == after[1]);
    train_to(after[2]);
    CHECK(change_batch(other, {"--lr-factor", "0.5"}) == after[2]);
    train_to(last);
    check_same(run, other);
    check_same(run, repeated(folder, run, last));
    CHECK(metric_steps(run) == first_steps(last));
    CHECK(fingerprint_steps(run) == first_steps(last));
    CHECK(read_file(run + "/fingerprints") == read_file(other + "/fingerprints"));
  });
}

TEST_CASE("a change keeps the workers, in the bits of a run that stops for it and resumes") {
  check_kept(ScratchFolder(), lenet_job());
}

std::string users_job(const std::string& model, const std::string& shape) {
  return fmt::format(
      "job = {{ name = \"users\", seed = 21, ests = 4 }}\n[model]\n{}[data]\nformat = \"synthetic\"\nshape = {}\n"
      "samples = 6000\ndrop_last = true\nbatch = 8\n[optimizer]\nlr = 0.001\n[train]\nsteps = 9\n",
      model, shape);
}

TEST_CASE("a change keeps the workers of an exported program") {
  const ScratchFolder folder;
  const std::string program = folder.write("net.pt2", small_program().file());
  check_kept(folder, users_job("name = \"program\"\nfile = \"" + program + "\"\n", "[3]"));
}

TEST_CASE("a change keeps the workers of a module in Python" *
          doctest::skip(!std::filesystem::exists(ESTRAIN_PEERS_PYTHON))) {
  const char* const model = "name = \"python\"\nfile = \"" ESTRAIN_SOURCE_DIR
                            "/examples/python/net.py:build\"\n"
                            "python = \"" ESTRAIN_PEERS_PYTHON "\"\n";
  check_kept(ScratchFolder(), users_job(model, "[1, 28, 28]"));
}

TEST_CASE("a run killed right after a change goes on with it, from an older checkpoint too") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", lenet_job() + kAdaptive), run = folder / "run";
  int64_t after = 0;
  {
    Job job(spec, run, with({"--devices", "2"}, kWithoutEnd));
    job.reach(4);
    after = change_batch(run, {"--batch", "3"});
    job.launcher().kill();
  }
  int64_t last = 0;
  {
    Job job = Job::resumed(run, {"--devices", "1"});
    job.reach(after + 3);
    CHECK(job.status().value("batch", 0) == 3);
    CHECK(::kill(job.workers().at(0), SIGKILL) == 0);  // the new worker has the batch of the log
    job.reach(job.step() + 2);
    after = change_batch(run, {"--batch", "6"});
    CHECK(::kill(job.workers().at(0), SIGKILL) == 0);  // and the batch since the launch
    job.reach(after + 3);
    CHECK(job.resize("2").code == 0);  // the next launcher and the second worker, too
    CHECK(job.status().value("batch", 0) == 6);
    job.reach(job.step() + 3);
    last = stop_at(job);
  }
  train_to_end(run, last + 2);
  const std::string other = repeated(folder, run, last + 2);
  check_same(run, other);
  for (const int64_t step : checkpoint_steps(run))
    if (step > 0) fs::remove(run + fmt::format("/checkpoints/step-{:09}.h5", step));
  train_to_end(run, last + 2);
  check_same(run, other);
}

TEST_CASE("a change leaves its trace behind its step, and none before it") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", lenet_job() + kAdaptive);
  const std::string plain = folder / "plain", changed = folder / "changed";
  REQUIRE(estrain({"train", spec, "--run", plain}).code == 0);
  REQUIRE(estrain({"train", spec, "--run", changed, "--set", "elastic.changes=[{after = 4, batch = 8}]"}).code == 0);
  CHECK(difference(plain, changed).first_step == 5);
  const Ended verified = estrain({"verify", plain, changed});
  CHECK(verified.code == 3);
  CHECK(verified.says("the change logs differ"));
  CHECK(verified.says("mini-batches of 8 samples, learning rates times 1"));
}

TEST_CASE("a run that goes back to a checkpoint before a change takes the change at its step") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", lenet_job() + kAdaptive), run = folder / "run";
  REQUIRE(
      estrain(with({"train", spec, "--run", run, "--set", "train.steps=4"}, {"--set", "checkpoint.every=2"})).code ==
      0);
  CHECK(change_batch(run, {"--batch", "2"}) == 4);
  const std::string spec_of_run = read_file(run + "/job.toml");
  REQUIRE(estrain({"train", "--resume", "--run", run, "--set", "train.steps=6"}).code == 0);
  for (const int64_t step : {4, 6}) fs::remove(run + fmt::format("/checkpoints/step-{:09}.h5", step));
  REQUIRE(checkpoint_steps(run).back() == 2);
  fs::remove(run + "/job.toml");  // the log counts
  REQUIRE(estrain({"train", "--resume", "--run", run, "--set", "train.steps=6"}).code == 0);
  CHECK(changes_of(run).size() == 1);
  std::ofstream(folder / "repeat.toml") << spec_of_run;
  const std::string other = folder / "other";
  REQUIRE(estrain({"train", folder / "repeat.toml", "--run", other, "--set", "train.steps=6"}).code == 0);
  CHECK(difference(run, other).text == "");
  // Changes of steps that are trained cannot be taken back.
  fs::remove(run + "/changes.jsonl");
  std::ofstream(run + "/changes.jsonl") << "";
  const Ended refused = estrain({"train", "--resume", "--run", run, "--set", "train.steps=8"});
  CHECK(refused.code != 0);
  CHECK(refused.says("the changes of the batch up to step 6 are others"));
}

TEST_CASE("what cannot be changed is refused before anything is") {
  const ScratchFolder folder;
  const std::string fixed = folder.write("fixed.toml", lenet_job());
  REQUIRE(estrain({"train", fixed, "--run", folder / "fixed", "--set", "train.steps=1"}).code == 0);
  const Ended no = estrain({"change", folder / "fixed", "--batch", "4"});
  CHECK(no.code == 2);
  CHECK(no.says("elastic.batch = \"adaptive\""));

  const std::string spec = folder.write("job.toml", resnet18_job() + kAdaptive), run = folder / "run";
  Job job(spec, run, with(kWithoutEnd, {"--set", "data.samples=80", "--set", "data.drop_last=true"}));
  job.reach(1);
  for (const char* batch : {"1", "11"}) {
    const Ended refused = estrain({"change", run, "--batch", batch});
    INFO(refused.shown());
    CHECK(refused.code != 0);
    CHECK(refused.says(fmt::format("mini-batches of {} samples", batch)));
  }
  CHECK(estrain({"change", run}).code == 2);
  CHECK(estrain({"change", run, "--lr-factor", "0"}).code == 2);
  CHECK(events(run, "start").size() == 1);
  CHECK(read_file(run + "/changes.jsonl").empty());
  CHECK(
      estrain({"train", spec, "--run", folder / "b", "--set", "elastic.changes=[{after=3,batch=2},{after=3,batch=4}]"})
          .says("later step"));
}

TEST_CASE("a change that would leave a mini-batch of one sample is refused, and the job trains on") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", resnet18_job() + kAdaptive), run = folder / "run";
  const auto check_refused = [&] {
    const Ended refused = estrain({"change", run, "--batch", "3"});
    INFO(refused.shown());
    CHECK(refused.code == 2);
    CHECK(refused.says("would leave a mini-batch of one sample"));
    CHECK(read_file(run + "/changes.jsonl").empty());
  };
  {
    Job job(spec, run, with(kWithoutEnd, {"--set", "data.samples=80", "--set", "job.ests=8", "--set", "data.batch=5"}));
    job.reach(1);
    const std::vector<pid_t> workers = job.workers();
    check_refused();
    job.reach(job.step() + 2);
    CHECK(job.workers() == workers);
    stop_at(job);
  }
  CHECK(events(run, "batch_changed").empty());
  check_refused();
  change_batch(run, {"--batch", "10"});
}

}  // namespace
}  // namespace estrain::testing
