// Checkpoints of a run: which are kept, and what happens if one cannot be written or is damaged.

#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "core/base/clock.h"
#include "core/base/files/files.h"
#include "core/state/algorithms/choice_file.h"
#include "core/state/checkpoint/checkpoint_file.h"
#include "core/state/comm/records/step_record.h"
#include "file_limit.h"
#include "job.h"
#include "job_specs.h"
#include "run_files.h"

namespace estrain::testing {
namespace {

namespace fs = std::filesystem;

TEST_CASE("`keep` newest checkpoints and that of step 0 stay, each whole, and `latest` points to the newest") {
  const ScratchFolder folder;
  const std::string run = folder / "run";
  const Ended ended = estrain({"train", folder.write("job.toml", mlp_job()), "--run", run, "--set",
                               "checkpoint.every=2", "--set", "checkpoint.keep=2"});
  INFO(ended.shown());
  REQUIRE(ended.code == 0);
  CHECK(checkpoint_steps(run) == std::vector<int64_t>{0, 12, 13});
  CHECK(fs::path(latest_checkpoint(run)).filename() == "step-000000013.h5");
  CHECK(std::distance(fs::directory_iterator(run + "/checkpoints"), fs::directory_iterator()) == 4);
}

TEST_CASE("a resize and a stop write checkpoints of their steps") {
  const ScratchFolder folder;
  Job job(folder.write("job.toml", long_job()), folder / "run", {"--set", "checkpoint.keep=10"});
  job.reach(5);
  REQUIRE(job.resize("2").code == 0);
  job.reach(job.step() + 5);
  REQUIRE(job.stop().code == 0);
  job.launcher().wait();
  const int64_t resized = events(job.run(), "resize").at(0).at("step");
  CHECK(checkpoint_steps(job.run()) == std::vector<int64_t>{0, resized, last_step(job.run())});
}

// A run of 13 steps with checkpoints at 5, 10 and 13.
std::string finished_run(const ScratchFolder& folder) {
  const std::string run = folder / "run";
  const Ended ended = estrain(
      {"train", folder.write("job.toml", mlp_job()), "--run", run, "--set", "checkpoint.every=5", "--devices", "2"});
  INFO(ended.shown());
  REQUIRE(ended.code == 0);
  REQUIRE(checkpoint_steps(run) == std::vector<int64_t>{0, 5, 10, 13});
  return run;
}

const algorithms::Choice kChosen = {"product k=3", "NVIDIA H200, sm_90, 132 multiprocessors", "id=1",
                                    "cuBLASLt 13.1.0"};

TEST_CASE("the algorithms of a run are in its checkpoints, and a run that goes on from one takes them up") {
  const ScratchFolder folder;
  const std::string run = folder / "run", elsewhere = folder / "elsewhere";
  algorithms::Choices chosen;
  chosen.put(kChosen);
  make_folders(run);
  std::ofstream(run + "/algorithms.jsonl") << chosen.to_text();
  REQUIRE(finished_run(folder) == run);
  CHECK(checkpoint::CheckpointFile::open(run + "/checkpoints/step-000000000.h5").meta().algorithms == chosen.to_text());

  make_folders(elsewhere + "/checkpoints");
  fs::copy(run + "/job.toml", elsewhere);
  fs::copy(run + "/checkpoints/step-000000010.h5", elsewhere + "/checkpoints");
  algorithms::Choice another = kChosen, of_its_own = kChosen;
  another.algorithm = "id=2";
  of_its_own.key = "product k=4";
  std::ofstream(elsewhere + "/algorithms.jsonl") << another.to_line() << "\n" << of_its_own.to_line() << "\n";
  const Ended resumed = estrain({"train", "--resume", "--run", elsewhere});
  INFO(resumed.shown());
  CHECK(resumed.code == 0);
  chosen.put(of_its_own);
  CHECK(algorithms::ChoiceFile(elsewhere + "/algorithms.jsonl").read() == chosen);
  CHECK(checkpoint::CheckpointFile::open(latest_checkpoint(elsewhere)).meta().algorithms == chosen.to_text());
  CHECK(checkpoint::CheckpointFile::open(latest_checkpoint(elsewhere)).present_digests() ==
        checkpoint::CheckpointFile::open(latest_checkpoint(run)).present_digests());
}

void flip_a_bit(const std::string& path, double place) {
  std::string bytes = read_file(path);
  char& byte = bytes[static_cast<size_t>(place * static_cast<double>(bytes.size()))];
  byte = static_cast<char>(byte ^ 4);
  std::ofstream(path, std::ios::binary) << bytes;
}

void check_falls_back(const std::string& run, const std::string& damaged, const std::string& whole) {
  const Ended resumed = estrain({"train", "--resume", "--run", run, "--devices", "3"});
  INFO(resumed.shown());
  CHECK(resumed.code == 0);
  CHECK(resumed.says(damaged));
  CHECK(resumed.says("falling back"));
  CHECK(metric_steps(run) == first_steps(13));
  CHECK(difference(run, whole).text == "");
}

TEST_CASE("damaged checkpoints are told and skipped, and the bits come out the same") {
  const ScratchFolder folder;
  const std::string run = finished_run(folder), whole = folder / "whole";
  fs::remove(run + "/control.sock");  // cannot be copied
  fs::copy(run, whole, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  const std::string last = run + "/checkpoints/step-000000013.h5", middle = run + "/checkpoints/step-000000010.h5";
  SUBCASE("the newest is truncated") {
    fs::resize_file(last, fs::file_size(last) / 2);
    check_falls_back(run, last, whole);
  }
  SUBCASE("the newest is empty") {
    fs::resize_file(last, 0);
    check_falls_back(run, last, whole);
  }
  SUBCASE("the newest lacks its last byte") {
    fs::resize_file(last, fs::file_size(last) - 1);
    check_falls_back(run, last, whole);
  }
  SUBCASE("a bit is flipped at the front") {
    flip_a_bit(last, 0.01);
    check_falls_back(run, last, whole);
  }
  SUBCASE("a bit is flipped in the middle, and the one before it is cut short") {
    flip_a_bit(last, 0.6);
    fs::resize_file(middle, 1000);
    check_falls_back(run, last, whole);
  }
  SUBCASE("all are damaged: it starts over") {
    for (const auto& entry : fs::directory_iterator(run + "/checkpoints"))
      if (!entry.is_symlink()) flip_a_bit(entry.path().string(), 0.3);
    const Ended resumed = estrain({"train", "--resume", "--run", run});
    INFO(resumed.shown());
    CHECK(resumed.code == 0);
    CHECK(resumed.says("starting over from step 0"));
    CHECK(difference(run, whole).text == "");
  }
}

std::vector<int64_t> first_steps_without(int64_t last, int64_t missing) {
  std::vector<int64_t> steps = first_steps(last);
  std::erase(steps, missing);
  return steps;
}

TEST_CASE("damaged records are told and put aside, what is sound of them stays, and the run continues") {
  const ScratchFolder folder;
  const std::string run = finished_run(folder);
  const std::string metrics = run + "/metrics.jsonl", fingerprints = run + "/fingerprints";
  std::string lines = read_file(metrics);
  lines[lines.find("\"step\":4,")] = '\0';
  std::ofstream(metrics, std::ios::binary) << lines;
  flip_a_bit(fingerprints, 0.7);
  const std::string digests = read_file(fingerprints);
  const Ended resumed = estrain({"train", "--resume", "--run", run, "--set", "train.steps=15"});
  INFO(resumed.shown());
  CHECK(resumed.code == 0);
  CHECK(resumed.says("warning: " + metrics + " is damaged (a line before that of step 5 cannot be read): kept as " +
                     metrics + ".damaged-1"));
  CHECK(resumed.says("warning: " + fingerprints + " is damaged (its record "));
  CHECK(metric_steps(run) == first_steps_without(15, 4));
  CHECK(fingerprint_steps(run).size() == 14);
  CHECK(read_file(metrics + ".damaged-1") == lines);
  CHECK(read_file(fingerprints + ".damaged-1") == digests);
  const std::vector<Json> told = events(run, "records_damaged");
  REQUIRE(told.size() == 2);
  CHECK(told[0].at("step") == 13);
  CHECK(told[0].at("path") == metrics);
  CHECK(told[1].at("kept_as") == fingerprints + ".damaged-1");
  CHECK(events(run, "fault").empty());
}

TEST_CASE("no room for a checkpoint: training goes on, earlier ones stay whole, and a stop says what happened") {
  const ScratchFolder folder;
  Job job(folder.write("job.toml", long_job()), folder / "run", {"--set", "checkpoint.every=5"}, kSurvivesFileLimit);
  wait_until("two checkpoints", [&] {
    job.status();
    return job.step() > 0 && events(job.run(), "checkpoint").size() >= 2;
  });
  const std::vector<int64_t> before = checkpoint_steps(job.run());
  limit_files(job.scribe(), 500'000);  // more than the records need, less than a checkpoint
  wait_until("a checkpoint that fails", [&] {
    job.status();
    return !events(job.run(), "checkpoint_failed").empty();
  });
  CHECK(job.launcher().text().find("warning: no checkpoint at step") != std::string::npos);
  job.reach(job.step() + 5);
  CHECK(checkpoint_steps(job.run()).back() >= before.back());
  const std::vector<int64_t> left = checkpoint_steps(job.run());
  SUBCASE("still none at the stop, and none is waited for") {
    Command first({"stop", job.run()});
    wait_until("the word that the state waits",
               [&] { return job.launcher().text().find("waits for room") != std::string::npos; });
    const Ended second = job.stop();
    INFO(second.shown());
    CHECK(second.code != 0);
    CHECK(second.says("To give it up loses steps"));
    CHECK_FALSE(job.launcher().ended_within(0ms));
    const Ended stop = job.stop();
    INFO(stop.shown());
    CHECK(stop.code != 0);
    CHECK(stop.says("could not be written"));
    CHECK(first.wait().says("could not be written"));
    const Ended train = job.launcher().wait();
    INFO(train.shown());
    CHECK(train.code == 1);
    CHECK(train.says("could not be written"));
    CHECK(train.says("--resume"));
    CHECK(checkpoint_steps(job.run()) == left);
    const int64_t step = last_step(job.run());
    const auto is_last = [step](const Json& failed) { return failed.at("step") == step; };
    CHECK(std::ranges::count_if(events(job.run(), "checkpoint_failed"), is_last) <= (step % 5 == 0 ? 2 : 1));
  }
  SUBCASE("there is room again at the stop") {
    limit_files(job.scribe(), RLIM_INFINITY);
    CHECK(job.stop().code == 0);
    CHECK(job.launcher().wait().code == 75);
    CHECK(checkpoint_steps(job.run()).back() == last_step(job.run()));
  }
  for (const auto& entry : fs::directory_iterator(job.run() + "/checkpoints"))
    CHECK(entry.path().extension() != ".tmp");
}

// Foreign or damaged content in the files that a checkpoint quotes.
TEST_CASE("records of any type do not keep checkpoints from being written") {
  const ScratchFolder folder;
  Job job(folder.write("job.toml", long_job()), folder / "run", {"--set", "checkpoint.every=5"});
  wait_until("a checkpoint", [&] {
    job.status();
    return !events(job.run(), "checkpoint").empty();
  });
  const pid_t scribe = job.scribe();
  std::ofstream(job.run() + "/events.jsonl", std::ios::app) << R"({"event":5})"
                                                            << "\n"
                                                            << R"({"event":"stage","devices":[1]})"
                                                            << "\n"
                                                            << R"({"event":"stage","devices":["a\u0000b"],"step":[]})"
                                                            << "\n"
                                                            << std::string(100'000, '[') << "\n";
  std::ofstream(job.run() + "/changes.jsonl", std::ios::app) << std::string("a\0b\n", 4);
  std::ofstream(job.run() + "/algorithms.jsonl", std::ios::app) << "{\"key\":5}\nnonsense\n";
  const size_t before = events(job.run(), "checkpoint").size();
  wait_until("two more checkpoints", [&] {
    job.status();
    return events(job.run(), "checkpoint").size() >= before + 2;
  });
  CHECK(events(job.run(), "checkpoint_failed").empty());
  CHECK(events(job.run(), "fault").empty());
  CHECK(job.scribe() == scribe);
  REQUIRE(job.stop().code == 0);
  CHECK(job.launcher().wait().code == 75);
  CHECK(checkpoint_steps(job.run()).back() == last_step(job.run()));
}

TEST_CASE("a checkpoint that fails before the last one does not keep that from being tried") {
  const ScratchFolder folder;
  const std::string run = folder / "run";
  Job job(folder.write("job.toml", long_job()), run, {"--set", "checkpoint.every=200", "--set", "train.steps=201"});
  job.reach(1);
  wait_until("the scribe's folder", [&] { return fs::exists(run + "/checkpoints"); });
  const std::string in_the_way = run + "/checkpoints/step-000000200.h5.tmp";
  REQUIRE(fs::create_directory(in_the_way));
  const pid_t scribe = job.scribe();  // on a busy machine the job may have ended when this test looks again
  job.reach(150);
  ::kill(scribe, SIGSTOP);
  try {
    job.reach(201);                  // the job has ended except for its records and checkpoints
  } catch (const std::exception&) {  // on a busy machine the stopped scribe may have been replaced, and the job ended
  }
  ::kill(scribe, SIGCONT);
  const Ended train = job.launcher().wait();
  INFO(train.shown());
  CHECK(train.code == 0);
  CHECK(events(run, "checkpoint_failed").at(0).at("step") == 200);
  CHECK(fs::path(latest_checkpoint(run)).filename() == "step-000000201.h5");
}

TEST_CASE("no room for the records: the job says so and waits, goes on when there is room, and can be stopped") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", long_job()), run = folder / "run", whole = folder / "whole";
  Job job(spec, run, {"--set", "checkpoint.every=5", "--grace", "1"}, kSurvivesFileLimit);
  wait_until("two checkpoints", [&] {
    job.status();
    return job.step() > 0 && events(run, "checkpoint").size() >= 2;
  });
  limit_files(job.scribe(), 100);
  wait_until("the warning", [&] { return !events(run, "write_failed").empty(); });
  INFO(job.launcher().text());
  CHECK(job.launcher().text().find("cannot write " + run + "/") != std::string::npos);
  // Once the ring of records is full, no step is committed.
  int64_t step = -1;
  wait_until("a standstill", [&] {
    step = job.step();
    return step - last_step(run) >= comm::records_of_ring - 1;
  });
  CHECK(last_step(run) < step);
  CHECK(job.status().at("waits_for_room").get<std::string>().starts_with("cannot write " + run + "/"));
  CHECK(estrain({"status", run}).says("waits for room   cannot write"));
  const Ended refused = job.resize("2");
  INFO(refused.shown());
  CHECK(refused.code == 1);
  CHECK(refused.says("waits for room on the disk"));
  SUBCASE("room again") {
    limit_files(job.scribe(), RLIM_INFINITY);
    job.reach(step + 20);
    CHECK(job.stop().code == 0);
    CHECK(job.launcher().wait().code == 75);
    CHECK(events(run, "fault").empty());
    const std::string steps = "train.steps=" + std::to_string(last_step(run));
    REQUIRE(estrain({"train", spec, "--run", whole, "--set", steps}).code == 0);
    CHECK(difference(run, whole).text == "");
  }
  SUBCASE("stopped while there is none") {
    Command stop({"stop", run});
    wait_until("the word that the state waits",
               [&] { return job.launcher().text().find("the state of step") != std::string::npos; });
    const Ended told = job.stop();
    INFO(told.shown());
    CHECK(told.says("To give it up loses steps"));
    CHECK_FALSE(job.launcher().ended_within(0ms));
    // The state is given up, then the records, if a checkpoint has steps of theirs.
    for (int more = 0; more < 3 && !job.launcher().ended_within(2s); ++more) CHECK(job.stop().code != 0);
    const Ended stopped = stop.wait();
    INFO(stopped.shown());
    CHECK(stopped.code != 0);
    CHECK(stopped.says("cannot write " + run + "/"));
    CHECK(job.launcher().wait().code == 1);
    const std::string steps = "train.steps=" + std::to_string(checkpoint_steps(run).back() + 5);
    const Ended resumed = estrain({"train", "--resume", "--run", run, "--set", steps});
    INFO(resumed.shown());
    CHECK(resumed.code == 0);
    REQUIRE(estrain({"train", spec, "--run", whole, "--set", steps}).code == 0);
    CHECK(difference(run, whole).text == "");
  }
}

TEST_CASE("a checkpoint of another model or another number of ESTs is refused by name") {
  const ScratchFolder folder;
  const std::string run = folder / "run", other = folder / "other";
  const std::string spec = folder.write("job.toml", mlp_job());
  REQUIRE(estrain({"train", spec, "--run", run, "--set", "train.steps=3"}).code == 0);
  const auto plant = [&](const std::string& setting) {
    fs::remove_all(other);
    REQUIRE(estrain({"train", spec, "--run", other, "--set", "train.steps=4", "--set", setting}).code == 0);
    fs::copy_file(other + "/checkpoints/step-000000004.h5", run + "/checkpoints/step-000000004.h5",
                  fs::copy_options::overwrite_existing);
    const Ended resumed = estrain({"train", "--resume", "--run", run, "--set", "train.steps=5"});
    CHECK(resumed.code == 2);
    CHECK(resumed.says("step-000000004.h5"));
    return resumed;
  };
  const Ended model = plant("model.hidden=[48, 16]");
  INFO(model.shown());
  CHECK(model.says("model.hidden = [48, 16]"));
  const Ended ests = plant("job.ests=4");
  INFO(ests.shown());
  CHECK(ests.says("job.ests = 4"));
}

}  // namespace
}  // namespace estrain::testing
