// Data files changed since the run began: every starting worker refuses them by name, unless the user accepts them.

#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <vector>

#include "core/base/files/files.h"
#include "core/state/checkpoint/checkpoint_file.h"
#include "job.h"
#include "job_specs.h"
#include "run_files.h"

namespace estrain::testing {
namespace {

namespace fs = std::filesystem;

constexpr size_t kTextBytes = 40'000;

void append(const std::string& path, const std::string& more) { std::ofstream(path, std::ios::app) << more; }

// Without the final evaluation, which a continued run does not have.
Words steps(int64_t count) {
  return {"--set", "train.steps=" + std::to_string(count), "--set", "train.eval_every=never"};
}

Ended resume(const std::string& run, const Words& more = {}) {
  return estrain(with({"train", "--resume", "--run", run}, more));
}

// A text, the spec of a job that trains on it, and a run of four steps.
struct Begun {
  ScratchFolder folder;
  std::string text = folder.write("book.txt", some_text(kTextBytes));
  std::string spec = folder.write("job.toml", gpt_job(text));
  std::string run = folder / "run";

  Begun() { REQUIRE(train(run, 4).code == 0); }
  Ended train(const std::string& to, int64_t count) const {
    return estrain(with({"train", spec, "--run", to, "--devices", "2"}, steps(count)));
  }
};

TEST_CASE("a file that grew before a resume is refused by name, and nothing is overwritten") {
  const Begun begun;
  append(begun.text, some_text(3000));
  const std::string spec = read_file(begun.run + "/job.toml"), metrics = read_file(begun.run + "/metrics.jsonl");
  const Ended refused = resume(begun.run, steps(8));
  INFO(refused.shown());
  CHECK(refused.code == 1);
  CHECK(refused.says(begun.text + ": 43000 bytes, were 40000"));
  CHECK(refused.says("--accept-data"));
  CHECK(read_file(begun.run + "/job.toml") == spec);
  CHECK(read_file(begun.run + "/metrics.jsonl") == metrics);
  CHECK(checkpoint_steps(begun.run) == std::vector<int64_t>{0, 4});
  CHECK(changes_of(begun.run).empty());
  CHECK_FALSE(anyone_left(begun.run));

  fs::resize_file(begun.text, kTextBytes);
  const Ended resumed = resume(begun.run, steps(8));
  INFO(resumed.shown());
  REQUIRE(resumed.code == 0);
  const std::string whole = begun.folder / "whole";
  REQUIRE(begun.train(whole, 8).code == 0);
  CHECK(difference(begun.run, whole).text == "");
}

TEST_CASE("one byte that is another is refused as well") {
  const Begun begun;
  std::string text = some_text(kTextBytes);
  text[20'000] = static_cast<char>(text[20'000] ^ 1);
  begun.folder.write("book.txt", text);
  const Ended refused = resume(begun.run, steps(8));
  INFO(refused.shown());
  CHECK(refused.code == 1);
  CHECK(refused.says(begun.text + ": other contents in the same 40000 bytes"));
}

TEST_CASE("the same bytes elsewhere, and touched, are the same data") {
  const Begun begun;
  const std::string copy = begun.folder.write("copy.txt", some_text(kTextBytes));
  REQUIRE(resume(begun.run, with(steps(6), {"--set", "data.path=" + copy})).code == 0);
  fs::last_write_time(copy, fs::file_time_type::clock::now());
  REQUIRE(resume(begun.run, steps(8)).code == 0);
  const std::string whole = begun.folder / "whole";
  REQUIRE(begun.train(whole, 8).code == 0);
  CHECK(difference(begun.run, whole).text == "");
  CHECK(changes_of(begun.run).empty());
}

TEST_CASE("data that were accepted are a change of the run: in its log, its checkpoints and what verify says") {
  const Begun begun;
  append(begun.text, some_text(3000));
  const Ended accepted = resume(begun.run, with(steps(6), {"--accept-data"}));
  INFO(accepted.shown());
  REQUIRE(accepted.code == 0);
  CHECK(accepted.says("continues from step 4 with other data, as accepted: " + begun.text));
  const std::vector<Json> changes = changes_of(begun.run);
  REQUIRE(changes.size() == 1);
  CHECK(changes[0].at("change") == "data");
  CHECK(changes[0].at("step") == 4);
  CHECK(changes[0].at("was").at("size") == 40'000);
  CHECK(changes[0].at("is").at("size") == 43'000);
  CHECK(events(begun.run, "data_accepted").size() == 1);

  // From here on these are the run's data, and the log does not change.
  const Ended resumed = resume(begun.run, steps(8));
  INFO(resumed.shown());
  REQUIRE(resumed.code == 0);
  CHECK(changes_of(begun.run) == changes);
  CHECK(checkpoint::CheckpointFile::open(latest_checkpoint(begun.run)).meta().changes ==
        read_file(begun.run + "/changes.jsonl"));
  const Ended verified = estrain({"verify", begun.run, begun.run});
  INFO(verified.shown());
  CHECK(verified.code == 0);
  CHECK(verified.says("A: after step 4 on other, accepted data: " + begun.text + ": 43000 bytes, were 40000"));
}

TEST_CASE("a resume from a checkpoint before the change knows nothing of it") {
  const Begun begun;
  append(begun.text, some_text(3000));
  REQUIRE(resume(begun.run, with(steps(6), {"--accept-data"})).code == 0);
  for (const int64_t step : checkpoint_steps(begun.run))
    if (step > 4) fs::remove(begun.run + "/checkpoints/step-00000000" + std::to_string(step) + ".h5");
  CHECK(resume(begun.run, steps(8)).code == 1);
  fs::resize_file(begun.text, kTextBytes);
  REQUIRE(resume(begun.run, steps(8)).code == 0);
  CHECK(changes_of(begun.run).empty());
}

TEST_CASE("only a resume can accept other data") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", mlp_job());
  const Ended refused = estrain({"train", spec, "--run", folder / "run", "--accept-data"});
  CHECK(refused.code == 2);
  CHECK(refused.says("--accept-data belongs to --resume"));
  CHECK_FALSE(fs::exists(folder / "run"));
}

// The other workers have mapped the old file; a worker that trained on a longer one would give irreproducible bits.
TEST_CASE(
    "a file that grows while the job runs: a resize is refused, and the loss of a worker ends the job resumably") {
  const ScratchFolder folder;
  const std::string text = folder.write("book.txt", some_text(kTextBytes)), run = folder / "run";
  const std::string spec = folder.write("job.toml", gpt_job(text));
  Job job(spec, run, with({"--devices", "2"}, steps(1'000'000)));
  job.reach(5);
  append(text, some_text(3000));
  const Ended resized = job.resize("3");
  INFO(resized.shown());
  CHECK(resized.code == 1);
  CHECK(resized.says(text + ": 43000 bytes, were 40000"));
  job.reach(job.step() + 2);

  ::kill(job.workers().at(1), SIGKILL);
  const Ended ended = job.launcher().wait();
  INFO(ended.shown());
  CHECK(ended.code == 1);
  CHECK(ended.says(text + ": 43000 bytes, were 40000"));
  CHECK(ended.says("--accept-data"));
  const std::vector<Json> faults = events(run, "fault");
  const auto changed =
      std::ranges::count_if(faults, [](const Json& fault) { return fault.at("cause") == "data_changed"; });
  CHECK(changed == 2);  // by the resize, and by the killed worker's replacement
  CHECK(faults.back().at("class") == "user");
  CHECK(faults.back().at("retry") == false);
  const int64_t reached = last_step(run);
  CHECK(checkpoint_steps(run).back() == reached);

  fs::resize_file(text, kTextBytes);
  REQUIRE(resume(run, steps(reached + 3)).code == 0);
  const std::string whole = folder / "whole";
  REQUIRE(estrain(with({"train", spec, "--run", whole}, steps(reached + 3))).code == 0);
  CHECK(difference(run, whole).text == "");
}

}  // namespace
}  // namespace estrain::testing
