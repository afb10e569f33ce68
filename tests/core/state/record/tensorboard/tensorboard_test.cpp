#include "core/state/record/tensorboard/tensorboard.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>

#include "core/state/record/tensorboard/crc32c.h"
#include "core/state/record/tensorboard/tensorboard_event.h"
#include "tests/core/state/record/sample_records.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace estrain::record {
namespace {

TEST_CASE("CRC-32C as RFC 3720 gives it") {
  CHECK(crc32c("") == 0);
  CHECK(crc32c("123456789") == 0xE3069283);
  CHECK(crc32c(std::string(32, '\0')) == 0x8A9136AA);
  CHECK(crc32c(std::string(32, '\xFF')) == 0x62A8AB43);
}

TEST_CASE("a frame is found again, and none that is cut short or changed") {
  const std::string frame = scalar_frame(1.5, 300, {{"train/loss", 0.25f}, {"train/epoch", 2}});
  const auto found = find_frame(frame + "more");
  REQUIRE(found);
  CHECK(found->bytes == frame.size());
  CHECK(found->step == 300);
  CHECK(found->tags == std::vector<std::string>{"train/loss", "train/epoch"});
  for (size_t bytes = 0; bytes < frame.size(); ++bytes) CHECK_FALSE(find_frame(frame.substr(0, bytes)));
  for (size_t at = 0; at < frame.size(); ++at) {
    std::string changed = frame;
    changed[at] = static_cast<char>(changed[at] ^ 0x10);
    CHECK_FALSE(find_frame(changed));
  }
  CHECK(find_frame(version_frame(1))->tags.empty());
  CHECK(find_frame(start_frame(1, 7))->step == 7);
}

// A reader's view: "5" for a step, "5e" for an evaluation, "s5" for a start.
std::vector<std::string> read(const std::string& folder) {
  std::vector<std::string> files, found;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path().string());
  std::ranges::sort(files);
  for (const std::string& file : files) {
    const std::string bytes = bytes_of(file);
    for (std::string_view left = bytes; !left.empty();) {
      const auto frame = find_frame(left);
      if (!frame) {
        found.push_back("damaged");
        break;
      }
      if (!frame->tags.empty())
        found.push_back(std::to_string(frame->step) + (frame->tags[0].starts_with("test/") ? "e" : ""));
      else if (frame->step > 0)
        found.push_back("s" + std::to_string(frame->step));
      left.remove_prefix(frame->bytes);
    }
  }
  return found;
}

std::vector<std::string> steps_in(std::vector<std::string> found) {
  std::erase_if(found, [](const std::string& one) { return one[0] == 's'; });
  return found;
}

std::vector<std::string> steps(int64_t last) {
  std::vector<std::string> all;
  for (int64_t step = 1; step <= last; ++step) {
    all.push_back(std::to_string(step));
    if (step % 5 == 0) all.push_back(all.back() + "e");
  }
  return all;
}

struct Run {
  ScratchFolder folder;
  std::string metrics_path = folder / "metrics.jsonl", path = folder / "tensorboard";

  // Writes steps `from` to `to` as the scribe does, with an evaluation every five steps.
  void go(int64_t from, int64_t to, bool with_tensorboard = true) const {
    MetricsWriter metrics(metrics_path, Step(from));
    std::unique_ptr<TensorboardWriter> tensorboard;
    if (with_tensorboard) tensorboard = std::make_unique<TensorboardWriter>(path, metrics, Step(from));
    for (int64_t step = from + 1; step <= to; ++step) {
      const StepRecord record = sample_record(step);
      metrics.append({&record, 1});
      if (tensorboard) tensorboard->append({&record, 1});
      if (step % 5 != 0) continue;
      const EvaluationRecord evaluation{Step(step), 0.5, 0.75, 100};
      metrics.append(evaluation);
      if (tensorboard) tensorboard->append(evaluation);
    }
  }
  std::string file(int number) const {
    return path + "/events.out.tfevents.000000000" + std::to_string(number) + ".estrain";
  }
};

TEST_CASE("every step once, over resumes from any step") {
  for (const int64_t back_to : {0, 1, 4, 5, 6, 10, 12}) {
    const Run run;
    run.go(0, 12);
    CHECK(read(run.path) == steps(12));
    run.go(back_to, 20);
    CAPTURE(back_to);
    CHECK(steps_in(read(run.path)) == steps(20));
    run.go(20, 25);
    CHECK(steps_in(read(run.path)) == steps(25));
  }
}

TEST_CASE("a resume that goes back begins a file that tells readers to forget, one that goes on does not") {
  const Run run;
  run.go(0, 8);
  run.go(8, 10);
  CHECK_FALSE(std::filesystem::exists(run.file(1)));
  run.go(6, 9);
  CHECK(read(run.path) == std::vector<std::string>{"1", "2", "3", "4", "5", "5e", "6", "s7", "7", "8", "9"});
  run.go(3, 4);  // before the second file, which is removed
  CHECK_FALSE(std::filesystem::exists(run.file(1)));
  CHECK(std::filesystem::exists(run.file(2)));
  CHECK(read(run.path) == std::vector<std::string>{"1", "2", "3", "s4", "4"});
}

TEST_CASE("cut short at any byte, the rest is written again") {
  const Run run;
  run.go(0, 6);
  const std::string whole = bytes_of(run.file(0));
  for (size_t bytes = 0; bytes <= whole.size(); bytes += 7) {
    std::filesystem::remove_all(run.path);
    std::filesystem::create_directory(run.path);
    replace_bytes(run.file(0), whole.substr(0, bytes));
    run.go(6, 6);
    CAPTURE(bytes);
    CHECK(steps_in(read(run.path)) == steps(6));
  }
}

TEST_CASE("damage in the middle costs no step") {
  const Run run;
  run.go(0, 12);
  std::string bytes = bytes_of(run.file(0));
  bytes[bytes.size() / 2] ^= 1;
  replace_bytes(run.file(0), bytes);
  run.go(12, 14);
  CHECK(steps_in(read(run.path)) == steps(14));
}

TEST_CASE("switched on for a run that has steps already, it has these, too") {
  const Run run;
  run.go(0, 2500, false);
  run.go(2500, 2510);
  CHECK(read(run.path) == steps(2510));
}

TEST_CASE("records that come again are passed over") {
  const Run run;
  run.go(0, 5);
  MetricsWriter metrics(run.metrics_path, Step(5));
  TensorboardWriter tensorboard(run.path, metrics, Step(5));
  tensorboard.append(sample_records(3, 7));
  tensorboard.append(EvaluationRecord{Step(5), 0.5, 0.75, 100});
  CHECK(read(run.path) == std::vector<std::string>{"1", "2", "3", "4", "5", "5e", "6", "7"});
}

TEST_CASE("what lies there otherwise is left alone, and a link is not written to") {
  const Run run;
  std::filesystem::create_directory(run.path);
  replace_bytes(run.path + "/events.out.tfevents.1234.host", "another's");
  run.go(0, 2);
  CHECK(bytes_of(run.path + "/events.out.tfevents.1234.host") == "another's");
  const std::string elsewhere = run.folder.write("elsewhere", "precious");
  std::filesystem::remove(run.file(0));
  std::filesystem::create_symlink(elsewhere, run.file(0));
  CHECK(error_of([&] { run.go(2, 3); }).fault() == Fault::usage);
  CHECK(bytes_of(elsewhere) == "precious");
}

}  // namespace
}  // namespace estrain::record
