#include "core/state/record/saver.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <limits>

#include "core/base/files/disk.h"
#include "core/base/files/files.h"
#include "core/base/json/json_fields.h"
#include "core/state/checkpoint/directory.h"
#include "tests/bytes_read.h"
#include "tests/core/state/checkpoint/sample_state.h"
#include "tests/scratch_folder.h"

namespace estrain::record {
namespace {

TEST_CASE("the best evaluation is the first of the lowest loss, or of the highest accuracy; NaN is none") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  BestEvaluation loss("loss", true), accuracy("accuracy", false), none("none", false), f1("f1", false),
      wer("wer", true);
  CHECK_FALSE(loss.step().has_value());
  CHECK_FALSE(loss.take({Step(1), nan, 0.1, 10}));
  CHECK(loss.take({Step(2), 3.0, 0.5, 10}));
  CHECK_FALSE(loss.take({Step(4), 3.0, 0.6, 10}));
  CHECK(loss.take({Step(6), 2.5, 0.4, 10}));
  CHECK_FALSE(loss.take({Step(8), 2.6, 0.9, 10}));
  CHECK(loss.step() == Step(6));

  CHECK_FALSE(accuracy.take({Step(1), 1.0, 0, 0}));
  CHECK(accuracy.take({Step(2), 3.0, 0, 10}));
  CHECK(accuracy.take({Step(4), 9.0, 0.6, 10}));
  CHECK_FALSE(accuracy.take({Step(6), 1.0, 0.6, 10}));
  CHECK(accuracy.step() == Step(4));

  CHECK_FALSE(none.take({Step(2), 3.0, 0.5, 10}));
  CHECK_FALSE(none.step().has_value());

  CHECK_FALSE(f1.take({Step(1), 0.1, 0.9, 10}));  // without the metric
  for (BestEvaluation* by : {&f1, &wer}) {
    CHECK(by->take({Step(2), 3.0, 0.5, 10, {{"f1", 0.5}, {"wer", 0.5}}}));
    CHECK_FALSE(by->take({Step(3), 1.0, 0.9, 10, {{"f1", nan}, {"wer", nan}}}));
    CHECK(by->take({Step(4), 9.0, 0.1, 10, {{"f1", 0.6}, {"wer", 0.4}}}));
    CHECK_FALSE(by->take({Step(5), 1.0, 0.9, 10, {{"f1", 0.4}, {"wer", 0.6}}}));
  }
}

std::string stage_line(int64_t number, const std::string& devices = R"(["cpu","cpu:avx2"])") {
  return R"({"time":"t","event":"stage","stage":)" + std::to_string(number) + R"(,"step":)" +
         std::to_string(10 * number) + R"(,"workers":2,"devices":)" + devices + "}\n";
}

std::vector<int64_t> numbers_in(const StageHistory& history) {
  std::vector<int64_t> numbers;
  for (const Json& stage : parse_json(history.to_json(), "stages"))
    numbers.push_back(whole_in(stage, "stage").value_or(-1));
  return numbers;
}

TEST_CASE("a few stages are all there, as they were written; a run without any has an empty list") {
  const ScratchFolder folder;
  StageHistory history(folder / "events.jsonl");
  history.follow();
  CHECK(history.to_json() == "[]");
  CHECK(history.devices().empty());
  folder.write("events.jsonl", "{\"event\":\"start\"}\n" + stage_line(0) + stage_line(1, R"(["cpu"])"));
  history.follow();
  CHECK(history.to_json() == "[" + stage_line(0).substr(0, stage_line(0).size() - 1) + "," +
                                 stage_line(1, R"(["cpu"])").substr(0, stage_line(1, R"(["cpu"])").size() - 1) + "]");
  CHECK(history.devices() == "cpu");
}

TEST_CASE("lines of any type and damage are passed over") {
  const ScratchFolder folder;
  std::string text;
  for (const char* line : {R"({"event":5})", R"({"event":"stage","devices":5,"step":"x"})", R"({"event":["stage"]})",
                           R"({"event":"stage","devices":[1,{"a":2},null]})", "\"stage\"", R"(["stage"])",
                           R"({"event":null,"x":"stage"})", "{\"event\":\"stage\"", "\xff\"stage\""})
    text += std::string(line) + "\n";
  text += "{\"event\":\"stage\",\"x\":" + std::string(100'000, '[') + std::string(100'000, ']') + "}\n";
  folder.write("events.jsonl", text + stage_line(7) + "{\"event\":\"stage\",\"stage\":8");
  StageHistory history(folder / "events.jsonl");
  CHECK_NOTHROW(history.follow());
  CHECK(numbers_in(history) == std::vector<int64_t>{-1, -1, 7});
  CHECK(history.devices() == "cpu,cpu:avx2");
}

TEST_CASE("of very many stages the first and the newest stay, and what is left out is counted") {
  const ScratchFolder folder;
  std::string text;
  for (int64_t i = 0; i < 60'000; ++i) text += stage_line(i);
  folder.write("events.jsonl", text);
  StageHistory history(folder / "events.jsonl");
  history.follow();
  CHECK(history.to_json().size() < 2 * StageHistory::kMostBytes);
  const std::vector<int64_t> numbers = numbers_in(history);
  REQUIRE(numbers.size() == StageHistory::kFirst + 1 + StageHistory::kNewest);
  CHECK(numbers[9] == 9);
  CHECK(numbers[10] == -1);
  CHECK(numbers[11] == 59'000);
  CHECK(numbers.back() == 59'999);
  const Json gap = parse_json(history.to_json(), "stages").at(10);
  CHECK(gap == Json{{"event", "stages_left_out"}, {"count", 58'990}, {"step", 100}});
}

TEST_CASE("stages on very many devices are bounded by their bytes") {
  const ScratchFolder folder;
  std::string devices = "[\"cpu\"", text;
  for (int i = 0; i < 3000; ++i) devices += ",\"cpu\"";
  for (int64_t i = 0; i < 500; ++i) text += stage_line(i, devices + "]");
  folder.write("events.jsonl", text);
  StageHistory history(folder / "events.jsonl");
  history.follow();
  CHECK(text.size() > 8 * StageHistory::kMostBytes);
  CHECK(history.to_json().size() < 2 * StageHistory::kMostBytes);
  CHECK(numbers_in(history).back() == 499);
}

TEST_CASE("only what was added is read, and a file that became shorter from its beginning") {
  const ScratchFolder folder;
  std::string text;
  for (int64_t i = 0; i < 20'000; ++i) text += stage_line(i);
  folder.write("events.jsonl", text);
  StageHistory history(folder / "events.jsonl");
  history.follow();
  append_line(folder / "events.jsonl", stage_line(20'000).substr(0, stage_line(20'000).size() - 1));
  const int64_t before = bytes_read();
  history.follow();
  CHECK(bytes_read() - before < 10'000);
  CHECK(numbers_in(history).back() == 20'000);
  folder.write("events.jsonl", stage_line(5));
  history.follow();
  CHECK(numbers_in(history) == std::vector<int64_t>{5});
}

// Notes the calls that let files survive a power cut.
class NotingDisk final : public Disk {
 public:
  std::vector<std::string> calls;

  void sync_file(int fd, const std::string& path) override {
    note("sync", path);
    real_disk().sync_file(fd, path);
  }
  void sync_folder(const std::string& path) override {
    note("sync folder", path);
    real_disk().sync_folder(path);
  }
  void rename(const std::string& from, const std::string& to) override {
    note("rename to", to);
    real_disk().rename(from, to);
  }
  void make_link(const std::string& target, const std::string& path) override { real_disk().make_link(target, path); }
  void remove(const std::string& path) override { real_disk().remove(path); }

 private:
  void note(const std::string& what, const std::string& path) {
    calls.push_back(what + " " + std::filesystem::path(path).filename().string());
  }
};

// A state without digests on record, and a saver of it.
struct SavedState {
  ScratchFolder folder;
  NotingDisk disk;
  checkpoint::State state = checkpoint::filled(checkpoint::small_layout());
  spec::JobSpec spec;
  checkpoint::Manifest manifest;
  int beats = 0;

  SavedState() {
    spec.job.name = "saved";
    spec.job.ests = 2;
    spec.model.name = "mlp";
    manifest.layout = state.layout;
    manifest.batches.samples_per_est = 100;
    manifest.ests = 2;
    manifest.total_steps = 100;
    manifest.processor = "a processor";
  }
  uint64_t room = UINT64_MAX;
  SaveOutcome save(Step step, const std::vector<batches::BatchChange>& changes = {}) {
    Saver saver(
        spec, folder.path(), manifest, [this] { ++beats; }, disk, [this] { return room; });
    SaveOutcome outcome;
    disk.calls.clear();
    saver.save(
        {state.bytes(), step, 0.1, {}, changes}, [this] { disk.calls.push_back("copied"); },
        [&outcome](const SaveOutcome& done) { outcome = done; });
    saver.wait();
    return outcome;
  }
};

TEST_CASE("records are on the disk before the checkpoint of their steps is published") {
  SavedState saved;
  saved.folder.write("metrics.jsonl", "{}\n");
  std::vector<std::string> first = {"copied", "sync metrics.jsonl"};
  SUBCASE("with fingerprints") {
    saved.folder.write("fingerprints", "records");
    first.emplace_back("sync fingerprints");
  }
  SUBCASE("without") {}
  first.push_back("sync folder " + std::filesystem::path(saved.folder.path()).filename().string());
  CHECK(std::holds_alternative<Saved>(saved.save(Step(20))));
  const std::vector<std::string>& calls = saved.disk.calls;
  REQUIRE(calls.size() > first.size());
  CHECK(std::vector<std::string>(calls.begin(), calls.begin() + std::ssize(first)) == first);
  CHECK(std::ranges::count(calls, "rename to step-000000020.h5") == 1);
}

TEST_CASE("without room for a copy a state is written from where it lies, and free to change once it is written") {
  for (const bool has_room : {true, false}) {
    CAPTURE(has_room);
    SavedState saved;
    saved.room = has_room ? 2 * 4096 : 2 * 4096 - 1;  // a copy takes whole pages
    CHECK(std::holds_alternative<Saved>(saved.save(Step(20))));
    CHECK((saved.beats > 0) == has_room);
    const std::vector<std::string>& calls = saved.disk.calls;
    const auto copied = std::ranges::find(calls, "copied"),
               published = std::ranges::find(calls, "rename to step-000000020.h5");
    REQUIRE(published != calls.end());
    CHECK(std::ranges::count(calls, "copied") == 1);
    CHECK((copied < published) == has_room);
    const auto newest = checkpoint::CheckpointDirectory(saved.folder / "checkpoints").newest_valid();
    REQUIRE(newest.file);
    checkpoint::State read(saved.state.layout);
    newest.file->read_state(read.layout, read.bytes());
    CHECK(read.words == saved.state.words);
  }
}

TEST_CASE("a checkpoint has the changes of the batch since the launch, and its place in the data by them") {
  SavedState saved;
  saved.spec.data.batch = saved.manifest.batches.batch = 2;
  saved.spec.elastic.batch = spec::BatchMode::adaptive;
  saved.spec.elastic.changes = {{5, 4, 1}};
  CHECK(std::holds_alternative<Saved>(saved.save(Step(20), {{10, 3, 0.5}})));
  const auto newest = checkpoint::CheckpointDirectory(saved.folder / "checkpoints").newest_valid();
  REQUIRE(newest.file);
  CHECK(newest.file->meta().samples == 5 * 2 + 5 * 4 + 10 * 3);
  for (const char* change : {"after = 5, batch = 4", "after = 10, batch = 3"})
    CHECK(newest.file->meta().spec.find(change) != std::string::npos);
}

TEST_CASE("a state is copied in pieces, with a sign of life after each") {
  std::string from(1001, '\0'), to(1001, 'x');
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<char>(i * 7);
  const auto copied = [&](size_t bytes, size_t piece) {
    int pieces = 0;
    copy_in_pieces(reinterpret_cast<std::byte*>(to.data()), reinterpret_cast<const std::byte*>(from.data()), bytes,
                   piece, [&] {
                     ++pieces;
                     const size_t done = std::min(bytes, static_cast<size_t>(pieces) * piece);
                     CHECK(to.substr(0, done) == from.substr(0, done));
                     CHECK(to.substr(done) == std::string(to.size() - done, 'x'));
                   });
    to.assign(to.size(), 'x');
    return pieces;
  };
  CHECK(copied(1000, 100) == 10);
  CHECK(copied(1001, 100) == 11);
  CHECK(copied(99, 100) == 1);
  CHECK(copied(0, 100) == 0);
  SavedState saved;
  CHECK(std::holds_alternative<Saved>(saved.save(Step(20))));
  CHECK(saved.beats == 1);
}

}  // namespace
}  // namespace estrain::record
