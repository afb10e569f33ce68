#include "core/state/record/tensorboard/tensorboard.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "tests/core/state/record/sample_records.h"
#include "tests/scratch_folder.h"
#include "tests/tensorboard_files.h"

namespace estrain::record {
namespace {

using testing::shown_by_tensorboard;
using testing::TensorboardScalars;

TEST_CASE("CRC-32C as RFC 3720 gives it, by which the files are read here") {
  CHECK(testing::crc32c("") == 0);
  CHECK(testing::crc32c("123456789") == 0xE3069283);
  CHECK(testing::crc32c(std::string(32, '\0')) == 0x8A9136AA);
  CHECK(testing::crc32c(std::string(32, '\xFF')) == 0x62A8AB43);
}

std::vector<int64_t> every(int64_t stride, int64_t last) {
  std::vector<int64_t> steps;
  for (int64_t step = stride; step <= last; step += stride) steps.push_back(step);
  return steps;
}

EvaluationRecord sample_evaluation(int64_t step) { return {Step(step), 0.5, 0.75, 100}; }

struct Run {
  ScratchFolder folder;
  std::string metrics_path = folder / "metrics.jsonl", path = folder / "tensorboard";

  // Writes steps `from` to `to` as the scribe does, with an evaluation every five steps.
  void go(int64_t from, int64_t to, bool with_tensorboard = true) const {
    MetricsWriter metrics(metrics_path, Step(from));
    std::unique_ptr<TensorboardWriter> tensorboard;
    if (with_tensorboard) tensorboard = std::make_unique<TensorboardWriter>(path, metrics);
    for (int64_t step = from + 1; step <= to; ++step) {
      const StepRecord record = sample_record(step);
      if (tensorboard) tensorboard->append({&record, 1});
      metrics.append({&record, 1});
      if (step % 5 != 0) continue;
      if (tensorboard) tensorboard->append(sample_evaluation(step));
      metrics.append(sample_evaluation(step));
    }
  }
  // TensorBoard shows steps 1 to `last`, and their evaluations, once each.
  void check_shows(int64_t last) const {
    const TensorboardScalars shown = shown_by_tensorboard(path);
    CHECK(shown.steps() == every(1, last));
    CHECK(shown.steps("test/loss") == every(5, last));
  }
  std::string file(int number) const {
    return path + "/events.out.tfevents.000000000" + std::to_string(number) + ".estrain";
  }
};

TEST_CASE("a step's and an evaluation's figures") {
  const Run run;
  {
    MetricsWriter metrics(run.metrics_path, Step(0));
    TensorboardWriter tensorboard(run.path, metrics);
    tensorboard.append(sample_records(300, 300));
    EvaluationRecord evaluation = sample_evaluation(300);
    evaluation.metrics = {{"iou", 0.25}};
    tensorboard.append(evaluation);
  }
  const TensorboardScalars shown = shown_by_tensorboard(run.path);
  using Values = std::multimap<int64_t, float>;
  const StepRecord record = sample_record(300);
  CHECK(shown.by_tag == std::map<std::string, Values>{{"train/loss", {{300, record.loss}}},
                                                      {"train/learning_rate", {{300, static_cast<float>(record.lr)}}},
                                                      {"train/epoch", {{300, 30}}},
                                                      {"train/samples_per_second", {{300, 1234.5}}},
                                                      {"test/loss", {{300, 0.5}}},
                                                      {"test/accuracy", {{300, 0.75}}},
                                                      {"test/iou", {{300, 0.25}}}});
}

TEST_CASE("every step is shown once, over resumes from any step") {
  for (const int64_t back_to : {0, 1, 4, 5, 6, 10, 12}) {
    const Run run;
    run.go(0, 12);
    run.check_shows(12);
    run.go(back_to, 20);
    CAPTURE(back_to);
    run.check_shows(20);
    run.go(20, 25);
    run.check_shows(25);
  }
}

TEST_CASE("each writer begins a file that tells readers from where to forget, and changes no other one") {
  const Run run;
  run.go(0, 8);
  const std::string first = bytes_of(run.file(0));
  run.go(6, 9);
  run.go(3, 4);
  CHECK(bytes_of(run.file(0)) == first);
  CHECK(std::filesystem::exists(run.file(2)));
  CHECK(shown_by_tensorboard(run.path).starts == std::vector<int64_t>{7, 4});
  run.check_shows(4);
}

TEST_CASE("what a kill left in TensorBoard's file only is shown once") {
  const Run run;
  run.go(0, 7);
  {
    MetricsWriter metrics(run.metrics_path, Step(7));
    TensorboardWriter(run.path, metrics).append(sample_records(8, 11));
  }
  run.go(7, 12);
  run.check_shows(12);
}

TEST_CASE("a file that was cut short hides none after it") {
  const Run run;
  run.go(0, 6);
  run.go(6, 9);
  std::filesystem::resize_file(run.file(1), std::filesystem::file_size(run.file(1)) - 5);
  run.go(8, 12);
  run.check_shows(12);
}

TEST_CASE("switched on for a run that has steps already, it has these, too") {
  const Run run;
  run.go(0, 2500, false);
  run.go(2500, 2510);
  run.check_shows(2510);
}

TEST_CASE("records that come again are passed over") {
  const Run run;
  run.go(0, 5);
  MetricsWriter metrics(run.metrics_path, Step(5));
  TensorboardWriter tensorboard(run.path, metrics);
  tensorboard.append(sample_records(3, 7));
  tensorboard.append(sample_evaluation(5));
  run.check_shows(7);
}

TEST_CASE("what lies there otherwise is left alone, and a link is not written to") {
  const Run run;
  std::filesystem::create_directory(run.path);
  replace_bytes(run.path + "/events.out.tfevents.1234.host", "another's");
  const std::string elsewhere = run.folder.write("elsewhere", "precious");
  std::filesystem::create_symlink(elsewhere, run.file(0));
  run.go(0, 2);
  CHECK(bytes_of(run.path + "/events.out.tfevents.1234.host") == "another's");
  CHECK(bytes_of(elsewhere) == "precious");
  CHECK(std::filesystem::exists(run.file(1)));
}

}  // namespace
}  // namespace estrain::record
