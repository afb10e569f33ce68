#include "core/state/record/logs/fingerprints.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "core/base/files/files.h"
#include "tests/core/state/record/sample_records.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace estrain::record {
namespace {

const std::vector<std::string> names = {"fc.weight", "bn.running_mean", "est/0/generator"};

std::vector<int64_t> steps_in(const std::string& path) {
  const FingerprintReader reader(path);
  std::vector<int64_t> steps;
  for (size_t i = 0; i < reader.size(); ++i) steps.push_back(reader.step(i).value);
  return steps;
}

std::vector<int64_t> counting(int64_t first, int64_t last) {
  std::vector<int64_t> steps;
  for (int64_t step = first; step <= last; ++step) steps.push_back(step);
  return steps;
}

void write(const std::string& path, int64_t first, int64_t last) {
  FingerprintWriter(path, names, Step(first - 1)).append(sample_records(first, last));
}

TEST_CASE("what is written is read, at random and in order") {
  const ScratchFolder folder;
  {
    FingerprintWriter writer(folder / "f", names, Step(0));
    writer.append(sample_records(1, 5));
    writer.append({});
    writer.append(sample_records(6, 6));
  }
  const FingerprintReader reader(folder / "f");
  CHECK(reader.names() == names);
  REQUIRE(reader.size() == 6);
  for (int64_t step = 1; step <= 6; ++step) {
    const std::optional<size_t> at = reader.find(Step(step));
    REQUIRE(at.has_value());
    CHECK(reader.step(*at) == Step(step));
    const auto digests = reader.digests(*at);
    CHECK(std::vector<uint64_t>(digests.begin(), digests.end()) == sample_record(step).digests);
    CHECK(reader.intact(*at));
  }
  CHECK_FALSE(reader.find(Step(0)).has_value());
  CHECK_FALSE(reader.find(Step(7)).has_value());
}

TEST_CASE("a resumed run drops what is behind its checkpoint and goes on") {
  const ScratchFolder folder;
  write(folder / "f", 1, 9);
  write(folder / "f", 7, 12);
  CHECK(steps_in(folder / "f") == counting(1, 12));
  FingerprintWriter(folder / "f", names, Step(0));
  CHECK(steps_in(folder / "f").empty());
}

TEST_CASE("cut short at any byte: whole records stay, and the writer goes on behind them") {
  const ScratchFolder folder;
  write(folder / "whole", 1, 4);
  const std::string whole = bytes_of(folder / "whole");
  const size_t header = whole.size() - 4 * 40;
  for (size_t length = 0; length <= whole.size(); ++length) {
    CAPTURE(length);
    replace_bytes(folder / "f", whole.substr(0, length));
    if (length >= header) CHECK(steps_in(folder / "f") == counting(1, static_cast<int64_t>((length - header) / 40)));
    write(folder / "f", 3, 5);
    const std::vector<int64_t> steps = steps_in(folder / "f");
    REQUIRE(steps.size() >= 3);
    CHECK(std::vector<int64_t>(steps.end() - 3, steps.end()) == counting(3, 5));
  }
}

TEST_CASE("a damaged record is known, at the end it does not count") {
  const ScratchFolder folder;
  write(folder / "f", 1, 4);
  const std::string whole = bytes_of(folder / "f");
  for (size_t back = 1; back <= 40; ++back) {
    std::string bytes = whole;
    bytes[bytes.size() - back] ^= 8;
    replace_bytes(folder / "f", bytes);
    CHECK(steps_in(folder / "f") == counting(1, 3));
    bytes = whole;
    bytes[bytes.size() - 80 - back] ^= 8;
    replace_bytes(folder / "f", bytes);
    const FingerprintReader reader(folder / "f");
    CHECK(reader.size() == 4);
    CHECK_FALSE(reader.intact(1));
  }
  replace_bytes(folder / "f", whole + std::string(40, '\0'));
  CHECK(steps_in(folder / "f") == counting(1, 4));
}

TEST_CASE("any byte of a record up to the step that a run goes on from: the file is put aside, the others stay") {
  const ScratchFolder folder;
  write(folder / "f", 1, 6);
  const std::string whole = bytes_of(folder / "f");
  CHECK_FALSE(mend_fingerprints(folder / "f", Step(5)).has_value());
  CHECK_FALSE(mend_fingerprints(folder / "none", Step(5)).has_value());
  for (int64_t step = 1; step <= 5; ++step) {
    std::vector<int64_t> others = counting(1, 5);
    std::erase(others, step);
    for (size_t byte = 0; byte < 40; byte += 13) {
      CAPTURE(step);
      CAPTURE(byte);
      std::string bytes = whole;
      bytes[bytes.size() - 40 * static_cast<size_t>(7 - step) + byte] ^= 8;
      replace_bytes(folder / "f", bytes);
      CHECK(error_of([&] { FingerprintWriter(folder / "f", names, Step(5)); }).fault() == Fault::corrupt);
      CHECK(bytes_of(folder / "f") == bytes);
      const std::optional<Damage> damage = mend_fingerprints(folder / "f", Step(5));
      REQUIRE(damage.has_value());
      CHECK(damage->path == folder / "f");
      CHECK(bytes_of(damage->kept_as) == bytes);
      CHECK(steps_in(folder / "f") == others);
      write(folder / "f", 6, 7);
      others.insert(others.end(), {6, 7});
      CHECK(steps_in(folder / "f") == others);
      CHECK_FALSE(mend_fingerprints(folder / "f", Step(7)).has_value());
      others.resize(4);
    }
  }
  CHECK(std::filesystem::exists(folder / "f.damaged-20"));
  CHECK_FALSE(std::filesystem::exists(folder / "f.tmp"));
}

TEST_CASE("damage behind the step that a run goes on from goes with what is there") {
  const ScratchFolder folder;
  write(folder / "f", 1, 6);
  std::string bytes = bytes_of(folder / "f");
  bytes[bytes.size() - 10] ^= 8;
  bytes[bytes.size() - 50] ^= 8;
  replace_bytes(folder / "f", bytes);
  CHECK(mend_fingerprints(folder / "f", Step(5)).has_value());
  replace_bytes(folder / "f", bytes);
  CHECK_FALSE(mend_fingerprints(folder / "f", Step(4)).has_value());
  write(folder / "f", 5, 5);
  CHECK(steps_in(folder / "f") == counting(1, 5));
}

TEST_CASE("a fingerprints file whose head is damaged is put aside") {
  const ScratchFolder folder;
  write(folder / "f", 1, 6);
  std::string bytes = bytes_of(folder / "f");
  bytes[3] ^= 8;
  replace_bytes(folder / "f", bytes);
  const std::optional<Damage> damage = mend_fingerprints(folder / "f", Step(4));
  REQUIRE(damage.has_value());
  CHECK(bytes_of(damage->kept_as) == bytes);
  write(folder / "f", 5, 6);
  CHECK(steps_in(folder / "f") == counting(5, 6));
}

TEST_CASE("only the tail of a long file is checked; what lies further back stays") {
  const ScratchFolder folder;
  constexpr size_t kDigests = 62;  // 512 bytes a record
  const std::vector<std::string> many(kDigests, "p");
  FingerprintWriter(folder / "f", many, Step(0)).append(sample_records(1, 40'000, kDigests));
  const std::string whole = bytes_of(folder / "f");
  const auto damaged_at = [&](int64_t step) {
    std::string bytes = whole;
    bytes[bytes.size() - 512 * static_cast<size_t>(40'001 - step) + 100] ^= 8;
    replace_bytes(folder / "f", bytes);
    return mend_fingerprints(folder / "f", Step(39'000)).has_value();
  };
  CHECK_FALSE(damaged_at(5'000));
  FingerprintWriter(folder / "f", many, Step(39'000));
  CHECK(FingerprintReader(folder / "f").size() == 39'000);
  CHECK(damaged_at(38'000));
  CHECK(FingerprintReader(folder / "f").size() == 38'999);
  CHECK(damaged_at(20'000 + 1));  // the bisection reads it
}

TEST_CASE("records of which none is right are no empty file") {
  const ScratchFolder folder;
  write(folder / "f", 1, 3);
  std::string bytes = bytes_of(folder / "f");
  const size_t header = bytes.size() - 3 * 40;
  for (size_t i = 0; i < 3; ++i) bytes[header + i * 40 + 20] ^= 1;
  replace_bytes(folder / "f", bytes);
  CHECK(error_of([&] { FingerprintReader reader(folder / "f"); }).fault() == Fault::corrupt);
  replace_bytes(folder / "f", bytes.substr(0, header) + std::string(3 * 40, '\0'));
  CHECK(steps_in(folder / "f").empty());
}

TEST_CASE("another job's file, and one that is no fingerprints file, are refused") {
  const ScratchFolder folder;
  write(folder / "f", 1, 2);
  const Error error = error_of([&] { FingerprintWriter(folder / "f", {"fc.weight", "fc.bias"}, Step(2)); });
  CHECK(error.fault() == Fault::mismatch);
  CHECK(steps_in(folder / "f") == counting(1, 2));
  replace_bytes(folder / "g", std::string(100, 'x'));
  CHECK(error_of([&] { FingerprintReader reader(folder / "g"); }).fault() == Fault::corrupt);
  CHECK(error_of([&] { FingerprintWriter(folder / "g", names, Step(0)); }).fault() == Fault::corrupt);
  CHECK(error_of([&] { FingerprintReader reader(folder / "absent"); }).fault() == Fault::io);
}

TEST_CASE("a list of names that is longer than its names, or ends in anything but zeros, is damaged") {
  const ScratchFolder folder;
  write(folder / "f", 1, 2);
  const std::string bytes = read_file(folder / "f");
  uint64_t size = 0;
  std::memcpy(&size, bytes.data() + 16, sizeof size);
  const size_t end = 24 + size;
  std::string longer = bytes.substr(0, end) + std::string(8, '\0') + bytes.substr(end);
  size += 8;
  std::memcpy(longer.data() + 16, &size, sizeof size);
  replace_bytes(folder / "longer", longer);
  CHECK(error_of([&] { FingerprintReader reader(folder / "longer"); }).fault() == Fault::corrupt);
  REQUIRE(bytes[end - 1] == '\0');
  std::string other = bytes;
  other[end - 1] = 'x';
  replace_bytes(folder / "other", other);
  CHECK(error_of([&] { FingerprintReader reader(folder / "other"); }).fault() == Fault::corrupt);
}

TEST_CASE("records that the file has are passed over; steps that do not rise or digests that do not fit are a bug") {
  const ScratchFolder folder;
  FingerprintWriter writer(folder / "f", names, Step(0));
  writer.append(sample_records(1, 2));
  const auto before = bytes_of(folder / "f");
  writer.append(sample_records(2, 2));
  CHECK(bytes_of(folder / "f") == before);
  writer.append(sample_records(1, 3));
  CHECK(FingerprintReader(folder / "f").size() == 3);
  std::vector<StepRecord> falling = sample_records(4, 5);
  std::swap(falling[0], falling[1]);
  CHECK(error_of([&] { writer.append(falling); }).fault() == Fault::bug);
  CHECK(error_of([&] { writer.append(sample_records(4, 4, 2)); }).fault() == Fault::bug);
}

// In a child, since the limit on file sizes holds for the whole process.
TEST_CASE("a full disk costs the records that did not fit, nothing else") {
  const ScratchFolder folder;
  FingerprintWriter writer(folder / "f", names, Step(0));
  writer.append(sample_records(1, 2));
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const auto room = static_cast<rlim_t>(bytes_of(folder / "f").size() + 50);
    const rlimit tight = {room, RLIM_INFINITY}, free = {RLIM_INFINITY, RLIM_INFINITY};
    int outcome = 1;
    ::setrlimit(RLIMIT_FSIZE, &tight);
    try {
      writer.append(sample_records(3, 4));
    } catch (const Error& error) {
      outcome = error.fault() == Fault::io && steps_in(folder / "f") == counting(1, 2) ? 0 : 2;
    }
    ::setrlimit(RLIMIT_FSIZE, &free);
    writer.append(sample_records(5, 6));
    if (steps_in(folder / "f") != std::vector<int64_t>{1, 2, 5, 6}) outcome = 3;
    ::_exit(outcome);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace estrain::record
