#include "core/state/checkpoint/directory.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "tests/bytes_read.h"
#include "tests/core/state/checkpoint/sample_state.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace estrain::checkpoint {
namespace {

std::vector<Step> steps(std::initializer_list<int64_t> values) {
  std::vector<Step> list;
  for (const int64_t value : values) list.emplace_back(value);
  return list;
}

void publish(CheckpointDirectory& directory, int64_t step) {
  const State state = filled(small_layout(), static_cast<uint64_t>(step));
  directory.publish(state.layout, state.bytes(), sample_meta(step));
}

void flip_element(const std::string& path, int64_t step) {
  const State state = filled(small_layout(), static_cast<uint64_t>(step));
  std::string bytes = bytes_of(path);
  bytes[bytes.find(std::string(reinterpret_cast<const char*>(state.bytes()), 120)) + 50] ^= 4;
  replace_bytes(path, bytes);
}

TEST_CASE("checkpoints are published under their step and `latest` follows") {
  const ScratchFolder folder;
  CheckpointDirectory directory(folder / "run/checkpoints");
  CHECK(directory.steps().empty());
  CHECK_FALSE(directory.newest_valid().file.has_value());
  for (const int64_t step : {0, 20, 100}) publish(directory, step);
  CHECK(directory.path_of(Step(20)) == folder / "run/checkpoints/step-000000020.h5");
  CHECK(directory.steps() == steps({0, 20, 100}));
  CHECK(std::filesystem::read_symlink(folder / "run/checkpoints/latest") == "step-000000100.h5");
  CHECK(CheckpointFile::open(folder / "run/checkpoints/latest").meta().step == Step(100));
  const NewestCheckpoint newest = directory.newest_valid();
  REQUIRE(newest.file.has_value());
  CHECK(newest.file->meta().step == Step(100));
  CHECK(newest.skipped.empty());
}

TEST_CASE("the checkpoint of the best evaluation stays, and `best` points at it once it is there") {
  const ScratchFolder folder;
  CheckpointDirectory directory(folder.path());
  for (const int64_t step : {0, 10, 20, 30, 40}) publish(directory, step);
  directory.point_best_at(Step(50));
  CHECK_FALSE(std::filesystem::exists(folder / "best"));
  directory.point_best_at(Step(20));
  CHECK(std::filesystem::read_symlink(folder / "best") == "step-000000020.h5");
  CHECK(directory.prune(Step(40), 1, Step(20)) == steps({30, 10}));
  CHECK(directory.steps() == steps({0, 20, 40}));
  CHECK(directory.prune(Step(40), 1) == steps({20}));
}

TEST_CASE("damaged checkpoints are skipped, each with its reason") {
  const ScratchFolder folder;
  CheckpointDirectory directory(folder.path());
  for (const int64_t step : {0, 10, 20, 30, 40}) publish(directory, step);
  std::filesystem::resize_file(directory.path_of(Step(40)), 4000);
  flip_element(directory.path_of(Step(30)), 30);
  std::filesystem::copy_file(directory.path_of(Step(10)), directory.path_of(Step(20)),
                             std::filesystem::copy_options::overwrite_existing);
  const NewestCheckpoint newest = directory.newest_valid();
  REQUIRE(newest.file.has_value());
  CHECK(newest.file->meta().step == Step(10));
  REQUIRE(newest.skipped.size() == 3);
  CHECK(newest.skipped[0].step == Step(40));
  CHECK(newest.skipped[0].why.find("truncated") != std::string::npos);
  CHECK(newest.skipped[1].why.find("/model/embed.weight: its elements are damaged") != std::string::npos);
  CHECK(newest.skipped[2].why.find("is the checkpoint of step 10") != std::string::npos);
}

TEST_CASE(
    "1,000 random bytes of a large checkpoint, one flipped at a time: the one before it is used, and it is said") {
  const ScratchFolder folder;
  CheckpointDirectory directory(folder.path());
  StateLayout layout;
  for (int i = 0; i < 100; ++i) layout.append(Role::parameter, "p" + std::to_string(i), "", DType::f32, {97, 103});
  const State older = filled(layout, 1), newer = filled(layout, 2);
  directory.publish(layout, older.bytes(), sample_meta(10));
  directory.publish(layout, newer.bytes(), sample_meta(20));
  const std::string path = directory.path_of(Step(20));
  const auto size = std::filesystem::file_size(path);
  CHECK(size > 4'000'000);
  std::mt19937_64 random(5);
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  int64_t fell_back = 0;
  for (int round = 0; round < 1000; ++round) {
    const auto at = static_cast<std::streamoff>(random() % size);
    const char byte = static_cast<char>(file.seekg(at).get());
    file.seekp(at).put(static_cast<char>(byte ^ (1 << random() % 8))).flush();
    const NewestCheckpoint newest = directory.newest_valid();
    fell_back += newest.file && newest.file->meta().step == Step(10) && newest.skipped.size() == 1 &&
                 newest.skipped[0].step == Step(20) && !newest.skipped[0].why.empty();
    file.seekp(at).put(byte).flush();
  }
  CHECK(fell_back == 1000);
  State read(layout);
  const NewestCheckpoint newest = directory.newest_valid();
  REQUIRE(newest.file.has_value());
  newest.file->read_state(read.layout, read.bytes());
  CHECK(read.words == newer.words);
}

TEST_CASE("a checkpoint of the same step replaces a damaged one") {
  const ScratchFolder folder;
  CheckpointDirectory directory(folder.path());
  publish(directory, 10);
  flip_element(directory.path_of(Step(10)), 10);
  publish(directory, 10);
  CHECK(directory.newest_valid().file.has_value());
}

TEST_CASE("prune keeps the newest and step 0") {
  const ScratchFolder folder;
  CheckpointDirectory directory(folder.path());
  for (const int64_t step : {0, 10, 20, 30, 40}) publish(directory, step);
  CHECK(directory.prune(Step(40), 2) == steps({20, 10}));
  CHECK(directory.steps() == steps({0, 30, 40}));
  CHECK(directory.prune(Step(40), 2).empty());
  CHECK(directory.prune(Step(40), 1) == steps({30}));
  CHECK(directory.newest_valid().file->meta().step == Step(40));
}

TEST_CASE("prune does not count a damaged one") {
  const ScratchFolder folder;
  CheckpointDirectory directory(folder.path());
  for (const int64_t step : {0, 10, 20, 30}) publish(directory, step);
  std::filesystem::resize_file(directory.path_of(Step(30)), 100);
  CHECK(CheckpointDirectory(folder.path()).prune(Step(30), 1) == steps({10}));
  CHECK(directory.steps() == steps({0, 20, 30}));
}

TEST_CASE("prune leaves later checkpoints alone, and does not count them") {
  const ScratchFolder folder;
  CheckpointDirectory directory(folder.path());
  for (const int64_t step : {0, 10, 20, 900}) publish(directory, step);
  CHECK(directory.prune(Step(20), 1) == steps({10}));
  CHECK(directory.steps() == steps({0, 20, 900}));
}

TEST_CASE("prune reads a checkpoint once at most, and none that was published here or need not be known") {
  const ScratchFolder folder;
  CheckpointDirectory writer(folder.path());
  for (const int64_t step : {10, 20, 30, 40}) publish(writer, step);
  CheckpointDirectory successor(folder.path());
  const auto reads = [&](CheckpointDirectory& directory, int64_t keep) {
    const int64_t before = bytes_read();
    directory.prune(Step(40), keep);
    return bytes_read() - before > 2000;  // including the reads of the counter
  };
  CHECK_FALSE(reads(writer, 3));
  CHECK(writer.steps() == steps({20, 30, 40}));
  CHECK_FALSE(reads(successor, 3));
  CHECK(reads(successor, 2));
  CHECK_FALSE(reads(successor, 1));
  CHECK(successor.steps() == steps({40}));
}

TEST_CASE("what is no checkpoint in the folder is left alone, temporary files are not") {
  const ScratchFolder folder;
  CheckpointDirectory directory(folder.path());
  publish(directory, 10);
  for (const char* name : {"notes.txt", "step-7.h5", "step-000000007.h5.bak", "step-000000020.h5.tmp", "latest.tmp"})
    replace_bytes(folder / name, "x");
  CHECK(directory.steps() == steps({10}));
  CHECK(directory.remove_stale_temporaries() == 2);
  CHECK(directory.prune(Step(10), 1).empty());
  CHECK(std::filesystem::exists(folder / "notes.txt"));
  CHECK(std::filesystem::exists(folder / "step-7.h5"));
  CHECK_FALSE(std::filesystem::exists(folder / "step-000000020.h5.tmp"));
}

// In a child, since the limit on file sizes holds for the whole process.
TEST_CASE("a save that the disk refuses keeps everything as it was") {
  const ScratchFolder folder;
  CheckpointDirectory directory(folder.path());
  publish(directory, 10);
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {4096, 4096};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    int outcome = 1;
    try {
      publish(directory, 20);
    } catch (const Error& error) {
      outcome = error.fault() == Fault::io && error.message().starts_with("cannot save checkpoint ") ? 0 : 2;
    }
    ::_exit(outcome);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(directory.steps() == steps({10}));
  CHECK(directory.remove_stale_temporaries() == 0);
  CHECK(std::filesystem::read_symlink(folder / "latest") == "step-000000010.h5");
}

}  // namespace
}  // namespace estrain::checkpoint
