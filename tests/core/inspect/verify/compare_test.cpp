#include "core/inspect/verify/compare.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <ctime>

#include "core/formats/h5/file.h"
#include "core/inspect/verify/report.h"
#include "core/state/checkpoint/directory.h"
#include "tests/contains.h"
#include "tests/core/inspect/verify/fake_run.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace estrain::verify {
namespace {

std::vector<int64_t> numbers(const std::vector<Step>& steps) {
  std::vector<int64_t> values;
  for (const Step step : steps) values.push_back(step.value);
  return values;
}

std::string checkpoint_path(const std::string& run, int64_t step) {
  return checkpoint::CheckpointDirectory(run + "/checkpoints").path_of(Step(step));
}

// One ulp more, from a step on.
auto nudge(int64_t at_step, std::string path, size_t index) {
  return [=](int64_t step, FakeState& state) {
    if (step != at_step) return;
    float& value = state.f32(path, index);
    value = std::nextafter(value, 2.f);
  };
}

// The same, in a checkpoint on disk.
void nudge_file(const std::string& path, const std::string& dataset, size_t index) {
  h5::File file = h5::File::open_for_update(path);
  {
    h5::DatasetObject target = file.root().dataset(dataset);
    std::vector<float> values(static_cast<size_t>(target.elements()));
    target.read(h5::Type::f32, values.data());
    values[index] = std::nextafter(values[index], 2.f);
    target.write(h5::Type::f32, values.data());
  }
  file.close();
}

struct TwoRuns {
  ScratchFolder folder;
  std::string a = folder / "a", b = folder / "b";
};

TEST_CASE("equal runs are identical, whatever they ran on") {
  const TwoRuns runs;
  FakeRun{.events = stage_line(0, {"cpu"})}.write(runs.a);
  FakeRun{.events = stage_line(0, {"cpu", "cpu"}) + stage_line(7, {"cpu"})}.write(runs.b);
  const Comparison comparison = compare(runs.a, runs.b);
  CHECK(comparison.identical());
  CHECK(comparison.steps == 20);
  CHECK(comparison.ests == 2);
  CHECK(comparison.digests == 5);
  CHECK(numbers(comparison.checkpoints) == std::vector<int64_t>{0, 10, 20});
  CHECK(numbers(comparison.a.recorded) == std::vector<int64_t>{10, 20});
  CHECK(comparison.spec_keys.empty());
  CHECK(to_text(comparison) == "identical: bit for bit over 20 steps (1 to 20)\n  A: " + runs.a +
                                   " (steps 1 to 20)\n  B: " + runs.b +
                                   " (steps 1 to 20)\n  compared: losses of 2 ESTs and 5 digests at every step; every "
                                   "tensor of the checkpoints of step 0, 10, 20; checkpoints equal the records of "
                                   "step 10, 20\n");
  CHECK(to_json(comparison).at("identical") == true);
  CHECK(to_json(comparison).at("difference").is_null());
}

TEST_CASE("runs of different length are compared over the common part, and it says so") {
  const TwoRuns runs;
  FakeRun{.steps = 30}.write(runs.a);
  FakeRun{.steps = 25, .checkpoint_every = 0}.write(runs.b);
  const Comparison comparison = compare(runs.a, runs.b);
  CHECK(comparison.identical());
  CHECK(comparison.steps == 25);
  CHECK(contains(to_text(comparison), "A has 30 steps, B 25: compared the 25 in common"));
}

TEST_CASE("a run that began at a later step is compared from there on") {
  const TwoRuns runs;
  FakeRun{}.write(runs.a);
  FakeRun{.first_step = 5, .steps = 18}.write(runs.b);
  for (const auto& [a, b] : {std::pair(runs.a, runs.b), std::pair(runs.b, runs.a)}) {
    const Comparison comparison = compare(a, b);
    CHECK(comparison.identical());
    CHECK(comparison.steps == 13);
    CHECK(comparison.first == Step(6));
    CHECK(comparison.last == Step(18));
  }
  FakeRun{.first_step = 5, .disturb = nudge(17, "/model/fc.bias", 0)}.write(runs.folder / "c");
  CHECK(compare(runs.a, runs.folder / "c").difference->step == Step(17));
  CHECK(compare(runs.folder / "c", runs.a).difference->step == Step(17));
}

TEST_CASE("a parameter off by one ulp at one step is named exactly from the checkpoint of that step") {
  const TwoRuns runs;
  FakeRun{.events = stage_line(0, {"cpu"})}.write(runs.a);
  FakeRun{.events = stage_line(0, {"cpu", "cpu"}) + stage_line(9, {"cpu"}), .disturb = nudge(10, "/model/fc.weight", 8)}
      .write(runs.b);
  const Comparison comparison = compare(runs.a, runs.b);
  REQUIRE(comparison.difference.has_value());
  const Difference& difference = *comparison.difference;
  CHECK(difference.step == Step(10));
  CHECK(difference.evidence == DifferenceKind::record);
  CHECK(difference.digests == std::vector<std::string>{"fc.weight"});
  REQUIRE(difference.tensors.size() == 1);
  CHECK(difference.tensors[0].path == "/model/fc.weight");
  CHECK(difference.tensors[0].first.index == 8);
  CHECK(difference.tensors[0].first.at == std::vector<int64_t>{1, 3});
  CHECK(difference.tensors[0].first.distance == 1u);
  CHECK(comparison.replay_from == Step(0));
  const std::string text = to_text(comparison);
  CHECK(text.starts_with("different: first in the state recorded after step 10\n"));
  CHECK(contains(text, "digests after step 10: 1 of 5 differ: fc.weight\n"));
  CHECK(contains(text, "/model/fc.weight float32 [3, 5]: 1 of its elements; first at [1, 3] (flat 8): A "));
  CHECK(contains(text, "1 ulp apart"));
  CHECK(contains(text, "A ran on: cpu (1 worker), since step 0"));
  CHECK(contains(text, "B ran on: cpu (1 worker), since step 9"));
}

TEST_CASE("the processors named are those at the step of the difference") {
  const TwoRuns runs;
  FakeRun{.events = stage_line(0, {"cpu"})}.write(runs.a);
  const std::string moved = stage_line(0, {"cpu"}) + stage_line(13, {"cpu:avx2"});
  for (const auto& [step, processor] : {std::pair(12, "a processor"), {14, "another"}}) {
    FakeRun{.checkpoint_every = 5,
            .events = moved,
            .new_processor_after = 13,
            .disturb = nudge(step, "/model/fc.weight", 8)}
        .write(runs.b);
    CHECK(compare(runs.a, runs.b).a.processor == "a processor");
    CHECK(compare(runs.a, runs.b).b.processor == processor);
    std::filesystem::remove_all(runs.b);
  }
}

TEST_CASE("between checkpoints the digest names the tensor; optimizer, buffers and generators too") {
  for (const auto& [path, name] :
       {std::pair("/model/fc.bias", "fc.bias"), std::pair("/optimizer/fc.bias/momentum_buffer", "fc.bias"),
        std::pair("/buffers/bn.mean", "bn.mean")}) {
    CAPTURE(path);
    const TwoRuns runs;
    FakeRun{.checkpoint_every = 4}.write(runs.a);
    FakeRun{.checkpoint_every = 4, .disturb = nudge(7, path, 1)}.write(runs.b);
    const Comparison comparison = compare(runs.a, runs.b);
    REQUIRE(comparison.difference.has_value());
    CHECK(comparison.difference->step == Step(7));
    CHECK(comparison.difference->digests == std::vector<std::string>{name});
    CHECK(comparison.difference->tensors.empty());
    CHECK(comparison.replay_from == Step(4));
  }
  const TwoRuns runs;
  FakeRun{}.write(runs.a);
  FakeRun{.disturb = [](int64_t step, FakeState& state) {
    if (step == 7) state.bytes("/ests/1/generator")[3] ^= std::byte{1};
  }}.write(runs.b);
  CHECK(compare(runs.a, runs.b).difference->digests == std::vector<std::string>{"est/1/generator"});
}

TEST_CASE("a loss that differs comes before the state that it leads to, and names its ESTs") {
  const TwoRuns runs;
  FakeRun{}.write(runs.a);
  FakeRun{.disturb = nudge(6, "/model/fc.weight", 9),
          .disturb_losses =
              [](int64_t step, std::vector<float>& losses) {
                if (step == 6) losses[1] = std::nextafter(losses[1], 9.f);
              }}
      .write(runs.b);
  const Comparison comparison = compare(runs.a, runs.b);
  REQUIRE(comparison.difference.has_value());
  CHECK(comparison.difference->step == Step(6));
  CHECK(comparison.difference->evidence == DifferenceKind::loss);
  REQUIRE(comparison.difference->losses.size() == 1);
  CHECK(comparison.difference->losses[0].est == VirtualRank(1));
  CHECK(comparison.difference->digests == std::vector<std::string>{"fc.weight"});
  CHECK(contains(to_text(comparison), "  EST 1: loss "));
}

TEST_CASE("a checkpoint changed and resumed from is named, before the steps that follow from it") {
  const TwoRuns runs;
  FakeRun{.steps = 20}.write(runs.a);
  FakeRun{.steps = 10}.write(runs.b);
  nudge_file(checkpoint_path(runs.b, 10), "model/fc.weight", 4);
  checkpoint::reseal(checkpoint_path(runs.b, 10));
  // The records of a resumed run from there on.
  FakeRun{.first_step = 10, .checkpoint_every = 0, .disturb = nudge(10, "/model/fc.weight", 4)}.write(runs.b);
  const Comparison comparison = compare(runs.a, runs.b);
  REQUIRE(comparison.difference.has_value());
  CHECK(comparison.difference->step == Step(10));
  CHECK(comparison.difference->evidence == DifferenceKind::checkpoint);
  REQUIRE(comparison.difference->tensors.size() == 1);
  CHECK(comparison.difference->tensors[0].path == "/model/fc.weight");
  CHECK(comparison.difference->tensors[0].first.index == 4);
  CHECK(comparison.difference->tensors[0].first.distance == 1u);
  CHECK(comparison.replay_from == Step(0));
  REQUIRE(comparison.difference->remarks.size() == 1);
  CHECK(comparison.difference->remarks[0] ==
        "the checkpoint of B is not the state that B recorded at step 10: it was changed and resealed, or written "
        "incorrectly");
}

TEST_CASE("elements that changed on disk are found although the file is no longer valid") {
  const TwoRuns runs;
  FakeRun{}.write(runs.a);
  FakeRun{}.write(runs.b);
  nudge_file(checkpoint_path(runs.a, 20), "optimizer/fc.bias/momentum_buffer", 2);
  const Comparison comparison = compare(runs.a, runs.b);
  REQUIRE(comparison.difference.has_value());
  CHECK(comparison.difference->step == Step(20));
  CHECK(comparison.difference->evidence == DifferenceKind::checkpoint);
  REQUIRE(comparison.difference->tensors.size() == 1);
  CHECK(comparison.difference->tensors[0].path == "/optimizer/fc.bias/momentum_buffer");
  CHECK(comparison.difference->tensors[0].first.index == 2);
  CHECK(contains(to_text(comparison),
                 "the checkpoint of A is not the state that A recorded at step 20: 1 of its tensors "
                 "changed in the file after it was written, first /optimizer/fc.bias/momentum_buffer"));
}

TEST_CASE("a checkpoint that only one run has is held against what was recorded") {
  const TwoRuns runs;
  FakeRun{}.write(runs.a);
  FakeRun{.checkpoint_every = 0}.write(runs.b);
  CHECK(numbers(compare(runs.a, runs.b).a.recorded) == std::vector<int64_t>{10, 20});
  nudge_file(checkpoint_path(runs.a, 10), "model/fc.bias", 0);
  const Comparison comparison = compare(runs.a, runs.b);
  REQUIRE(comparison.difference.has_value());
  CHECK(comparison.difference->step == Step(10));
  CHECK(comparison.difference->evidence == DifferenceKind::own_record);
  CHECK(comparison.difference->digests == std::vector<std::string>{"fc.bias"});
}

TEST_CASE("a checkpoint that cannot be opened is told and left out") {
  const TwoRuns runs;
  FakeRun{}.write(runs.a);
  FakeRun{}.write(runs.b);
  std::filesystem::resize_file(checkpoint_path(runs.b, 10), 1000);
  const Comparison comparison = compare(runs.a, runs.b);
  CHECK(comparison.identical());
  CHECK(numbers(comparison.checkpoints) == std::vector<int64_t>{0, 20});
  REQUIRE(comparison.b.unreadable.size() == 1);
  CHECK(contains(to_text(comparison), "not compared: " + checkpoint_path(runs.b, 10) + ": truncated"));
}

// During its lifetime, this process can open only `more` additional files.
class OpenFilesLimit {
 public:
  explicit OpenFilesLimit(int more) {
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before_) == 0);
    const UniqueFd lowest_free(::dup(STDIN_FILENO));
    const rlimit limited = {static_cast<rlim_t>(lowest_free.get() + more), before_.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &limited) == 0);
  }
  ~OpenFilesLimit() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  OpenFilesLimit(const OpenFilesLimit&) = delete;

 private:
  rlimit before_{};
};

TEST_CASE("runs may have more checkpoints than a process may have files open") {
  const TwoRuns runs;
  FakeRun{.checkpoint_every = 1}.write(runs.a);
  FakeRun{.checkpoint_every = 1}.write(runs.b);
  const OpenFilesLimit limit(8);
  const Comparison comparison = compare(runs.a, runs.b);
  CHECK(comparison.identical());
  CHECK(comparison.a.unreadable.empty());
  CHECK(comparison.checkpoints.size() == 21);
}

TEST_CASE("a checkpoint that the system does not let be read is an error, not a remark") {
  const TwoRuns runs;
  FakeRun{}.write(runs.a);
  FakeRun{}.write(runs.b);
  std::filesystem::remove(checkpoint_path(runs.b, 10));
  std::filesystem::create_directory(checkpoint_path(runs.b, 10));
  const Error error = error_of([&] { (void)compare(runs.a, runs.b); });
  CHECK(error.fault() == Fault::io);
  CHECK(contains(error.message(), checkpoint_path(runs.b, 10)));
}

TEST_CASE("a checkpoint that is pruned while it is verified is left out") {
  const TwoRuns runs;
  FakeRun{}.write(runs.a);
  FakeRun{}.write(runs.b);
  const Subject a = open_subject(runs.a), b = open_subject(runs.b);
  std::filesystem::remove(checkpoint_path(runs.b, 10));
  CHECK(numbers(compare(a, b).checkpoints) == std::vector<int64_t>{0, 20});
}

TEST_CASE("two checkpoints, and a run with a checkpoint") {
  const TwoRuns runs;
  FakeRun{}.write(runs.a);
  FakeRun{.disturb = nudge(20, "/model/fc.bias", 1)}.write(runs.b);
  const std::string a10 = checkpoint_path(runs.a, 10), a20 = checkpoint_path(runs.a, 20);
  const std::string b10 = checkpoint_path(runs.b, 10), b20 = checkpoint_path(runs.b, 20);
  CHECK(compare(a10, b10).identical());
  CHECK(to_text(compare(a10, b10)).starts_with("identical: bit for bit\n"));
  CHECK(compare(a20, b20).difference->tensors.front().path == "/model/fc.bias");
  CHECK(compare(runs.a, b10).identical());
  CHECK(compare(runs.a, b20).difference->step == Step(20));
  CHECK(compare(b20, runs.a).difference->tensors.front().first.index == 1);
  const Comparison different_steps = compare(a10, a20);
  CHECK_FALSE(different_steps.identical());
  CHECK(contains(to_text(different_steps), "step is 10 in A, 20 in B"));
  // A run that recorded that step but has no checkpoint of it.
  std::filesystem::remove(a20);
  CHECK(compare(runs.a, b20).difference->digests == std::vector<std::string>{"fc.bias"});
  CHECK(numbers(compare(runs.a, b10).b.recorded) == std::vector<int64_t>{10});
}

TEST_CASE("of two checkpoints, one that fails its own checksums is named") {
  const TwoRuns runs;
  FakeRun{}.write(runs.a);
  FakeRun{}.write(runs.b);
  nudge_file(checkpoint_path(runs.b, 10), "model/fc.bias", 0);
  const std::string text = to_text(compare(checkpoint_path(runs.a, 10), checkpoint_path(runs.b, 10)));
  CHECK(contains(text,
                 "the checkpoint of B is damaged: 1 of its tensors changed in the file after it was written, "
                 "first /model/fc.bias\n"));
  CHECK_FALSE(contains(text, "the checkpoint of A is damaged"));
}

TEST_CASE("what only one of them has is listed in part, with a count") {
  const TwoRuns runs;
  FakeRun{}.write(runs.a);
  FakeRun{.ests = 30}.write(runs.b);
  const std::string text = to_text(compare(checkpoint_path(runs.a, 10), checkpoint_path(runs.b, 10)));
  CHECK(contains(text, "only B has /ests/"));
  CHECK(contains(text, "  only B …: 51 more\n"));  // 28 ESTs with two tensors each
  CHECK(std::ranges::count(text, '\n') < 20);
}

TEST_CASE("specs and change logs that differ are said up front") {
  const TwoRuns runs;
  FakeRun{}.write(runs.a);
  FakeRun{.spec = fake_spec(5),
          .changes = "{\"time\":\"t\",\"step\":3,\"lr\":0.5}\n{\"time\":\"t\",\"step\":99,\"lr\":0.1}\n"}
      .write(runs.b);
  const Comparison comparison = compare(runs.a, runs.b);
  CHECK(comparison.spec_keys == std::vector<std::string>{"job.seed"});
  CHECK(comparison.changes == "the change logs differ in entry 1: A: none, B: {\"step\":3,\"lr\":0.5}");
  CHECK(contains(to_text(comparison), "their specs differ in keys that define the bits: job.seed\n"));
}

TEST_CASE(
    "a run whose data were changed and accepted says so, from which step on; where the file lay is no difference") {
  const TwoRuns runs;
  const auto change = [](const std::string& time, const std::string& path, int64_t step) {
    return Json{{"time", time},        {"change", "data"}, {"step", step},
                {"is", {{"size", 9}}}, {"path", path},     {"words", path + ": 9 bytes, were 5"}}
               .dump() +
           "\n";
  };
  FakeRun{.changes = change("t", "/x/a.txt", 3) + change("t", "/x/a.txt", 99)}.write(runs.a);
  FakeRun{.changes = change("u", "/y/a.txt", 3)}.write(runs.b);
  const Comparison comparison = compare(runs.a, runs.b);
  CHECK(comparison.identical());
  CHECK(comparison.changes == "");
  const std::string text = to_text(comparison);
  CHECK(contains(text, "  A: after step 3 on other, accepted data: /x/a.txt: 9 bytes, were 5\n"));
  CHECK(contains(text, "  B: after step 3 on other, accepted data: /y/a.txt: 9 bytes, were 5\n"));
  CHECK_FALSE(contains(text, "after step 99"));
  CHECK(to_json(comparison).at("a").at("changes") == Json(comparison.a.changes));
  FakeRun{.changes = "no JSON\n{\"step\":2}\n"}.write(runs.b);
  CHECK(compare(runs.a, runs.b).b.changes ==
        std::vector<std::string>{"a change of the job: no JSON", "a change of the job: {\"step\":2}"});
}

TEST_CASE("another number of ESTs is no difference of bits but of jobs") {
  const TwoRuns runs;
  FakeRun{}.write(runs.a);
  FakeRun{.ests = 3}.write(runs.b);
  const Comparison comparison = compare(runs.a, runs.b);
  REQUIRE(comparison.difference.has_value());
  CHECK(comparison.difference->evidence == DifferenceKind::tensors);
  CHECK(contains(to_text(comparison), "different: first in the tensors: they belong to different jobs"));
}

TEST_CASE("runs without fingerprints are compared by losses and checkpoints, and it says so") {
  const TwoRuns runs;
  FakeRun{.fingerprints = false}.write(runs.a);
  FakeRun{}.write(runs.b);
  const Comparison comparison = compare(runs.a, runs.b);
  CHECK(comparison.identical());
  CHECK(comparison.digests == 0);
  CHECK(numbers(comparison.a.recorded) == std::vector<int64_t>{10, 20});
  CHECK(contains(to_text(comparison), "(not both recorded fingerprints)"));
}

TEST_CASE("records that are torn are named, and no more is said to be equal than was compared") {
  const TwoRuns runs;
  FakeRun{}.write(runs.a);
  FakeRun{}.write(runs.b);
  for (const int64_t step : {10, 20}) std::filesystem::remove(checkpoint_path(runs.b, step));
  const std::string fingerprints = runs.b + "/fingerprints";
  std::filesystem::resize_file(fingerprints, std::filesystem::file_size(fingerprints) - 10 * 7 * 8 - 13);
  const std::string text = to_text(compare(runs.a, runs.b));
  CHECK(text.starts_with("identical: bit for bit over 9 steps (1 to 9), in their losses over 20\n"));
  CHECK(contains(
      text, "torn or truncated: " + fingerprints + " ends at step 9, " + runs.b + "/metrics.jsonl ends at step 20\n"));
  CHECK(contains(text, "losses of 2 ESTs at 20 steps, 5 digests at 9 of 20 steps"));
  CHECK(contains(text, "; A's checkpoints equal the records of step 10, 20\n"));
  CHECK(to_json(compare(runs.a, runs.b)).at("states").at("common") == 9);

  replace_bytes(runs.b + "/metrics.jsonl", "");
  const std::string no_losses = to_text(compare(runs.a, runs.b));
  CHECK(no_losses.starts_with("identical: bit for bit over 9 steps (1 to 9)\n"));
  CHECK(contains(no_losses, runs.b + "/metrics.jsonl has no step"));
  CHECK(contains(no_losses, "compared: 5 digests at 9 steps, no losses; "));

  std::filesystem::remove(fingerprints);  // only the checkpoints of step 0 are equal
  CHECK(error_of([&] { (void)compare(runs.a, runs.b); }).fault() == Fault::mismatch);
}

TEST_CASE("nothing in common, no run, damaged records: an error, not a verdict") {
  const TwoRuns runs;
  FakeRun{.steps = 5, .checkpoint_every = 0}.write(runs.a);
  FakeRun{.first_step = 10}.write(runs.b);
  CHECK(error_of([&] { (void)compare(runs.a, runs.b); }).fault() == Fault::mismatch);
  CHECK(error_of([&] { (void)compare(runs.a, runs.folder / "absent"); }).fault() == Fault::usage);
  CHECK(error_of([&] { (void)compare(runs.a, runs.folder.path()); }).fault() == Fault::usage);
  FakeRun{.steps = 5, .checkpoint_every = 0}.write(runs.folder / "c");
  std::string bytes = bytes_of(runs.folder / "c/fingerprints");
  bytes[bytes.size() - 80] ^= 1;
  replace_bytes(runs.folder / "c/fingerprints", bytes);
  const Error damaged = error_of([&] { (void)compare(runs.a, runs.folder / "c"); });
  CHECK(damaged.fault() == Fault::corrupt);
  CHECK(contains(damaged.message(), "fingerprints: its record of step 4 is damaged"));
}

TEST_CASE("a hundred thousand steps are compared in less than a second") {
  const TwoRuns runs;
  const int64_t steps = 100000;
  std::vector<std::string> names;
  for (int i = 0; i < 60; ++i) names.push_back("p" + std::to_string(i));
  std::vector<record::StepRecord> records;
  for (int64_t step = 1; step <= steps; ++step) {
    record::StepRecord record = {Step(step),
                                 Epoch(0),
                                 0.1,
                                 1.f,
                                 std::vector<float>(4, 1.f / static_cast<float>(step)),
                                 std::vector<uint64_t>(60, static_cast<uint64_t>(step) * 77),
                                 1};
    records.push_back(std::move(record));
  }
  for (const std::string& run : {runs.a, runs.b}) {
    std::filesystem::create_directories(run);
    replace_bytes(run + "/job.toml", "[job]\nname = \"long\"\n");
    record::FingerprintWriter(run + "/fingerprints", names, Step(0)).append(records);
    record::MetricsWriter(run + "/metrics.jsonl", Step(0)).append(records);
    records.back().digests.back() ^= 1;
  }
  const std::clock_t begin = std::clock();  // CPU time, independent of other programs
  const Comparison comparison = compare(runs.a, runs.b);
  const double took = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  REQUIRE(comparison.difference.has_value());
  CHECK(comparison.difference->step == Step(steps));
  CHECK(comparison.difference->digests == std::vector<std::string>{"p59"});
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  CHECK(took < 10);  // most of it the sanitizer's
#else
  CHECK(took < 1);
#endif
}

}  // namespace
}  // namespace estrain::verify
