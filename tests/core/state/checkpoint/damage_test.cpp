// For any change to a checkpoint's bytes, it is refused, or the state is right bit for bit. Never a crash.
#include <doctest/doctest.h>

#include <optional>
#include <random>

#include "core/state/checkpoint/checkpoint_file.h"
#include "core/state/checkpoint/models/model_file.h"
#include "tests/core/state/checkpoint/sample_state.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace estrain::checkpoint {
namespace {

// Opens and reads everything. Returns its fault, or nothing if it succeeded and gave `expected`.
std::optional<Fault> fault_of_reading(const std::string& path, const State& expected) {
  try {
    State read(expected.layout);
    const CheckpointFile file = CheckpointFile::open(path);
    file.read_state(read.layout, read.bytes());
    CHECK(read.words == expected.words);
    CHECK(file.meta() == sample_meta());
    return std::nullopt;
  } catch (const Error& error) {
    CHECK(error.message().starts_with(path));
    return error.fault();
  }
}

bool verifies(const std::string& path) {
  try {
    CheckpointFile::open(path).verify();
    return true;
  } catch (const Error&) {
    return false;
  }
}

TEST_CASE("truncated at any byte") {
  const ScratchFolder folder;
  StateLayout layout;
  layout.append(Role::parameter, "w", "", DType::f32, {3});
  const State state = filled(layout);
  const std::string path = folder / "a.h5";
  write_checkpoint(path, state.layout, state.bytes(), sample_meta());
  const std::string whole = bytes_of(path);
  REQUIRE(fault_of_reading(path, state) == std::nullopt);
  replace_bytes(path, whole);
  int64_t refused = 0;
  for (size_t length = whole.size(); length-- > 0;) {
    std::filesystem::resize_file(path, length);
    refused += fault_of_reading(path, state) == Fault::corrupt;
  }
  CHECK(refused == static_cast<int64_t>(whole.size()));
}

TEST_CASE("extended by a byte") {
  const ScratchFolder folder;
  const State state = filled(small_layout());
  const std::string path = folder / "a.h5";
  write_checkpoint(path, state.layout, state.bytes(), sample_meta());
  replace_bytes(path, bytes_of(path) + '\0');
  CHECK(fault_of_reading(path, state) == Fault::corrupt);
}

TEST_CASE("any byte flipped in a small file") {
  const ScratchFolder folder;
  const State state = filled(small_layout());
  const std::string path = folder / "a.h5";
  write_checkpoint(path, state.layout, state.bytes(), sample_meta());
  const std::string whole = bytes_of(path);
  std::mt19937_64 random(3);
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  int64_t refused = 0, tried = 0;
  const auto put = [&](size_t at, char byte) { file.seekp(static_cast<std::streamoff>(at)).put(byte).flush(); };
  for (size_t at = 0; at < whole.size(); at += 1 + random() % 40) {
    put(at, static_cast<char>(whole[at] ^ (1 << random() % 8)));
    ++tried;
    refused += fault_of_reading(path, state).has_value() && !verifies(path);
    put(at, whole[at]);
  }
  CHECK(tried > 1000);
  CHECK(refused == tried);  // the seal covers dead space too
  CHECK(fault_of_reading(path, state) == std::nullopt);
}

TEST_CASE("random bytes, runs of zeros and swapped blocks in a larger file") {
  const ScratchFolder folder;
  StateLayout layout;
  for (int i = 0; i < 40; ++i) layout.append(Role::parameter, "p" + std::to_string(i), "", DType::f32, {97, 103});
  const State state = filled(layout);
  const std::string path = folder / "a.h5";
  write_checkpoint(path, state.layout, state.bytes(), sample_meta());
  const std::string whole = bytes_of(path);
  std::mt19937_64 random(4);
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  const auto put = [&](size_t at, const std::string& bytes) {
    file.seekp(static_cast<std::streamoff>(at)).write(bytes.data(), static_cast<std::streamsize>(bytes.size())).flush();
  };
  int64_t accepted = 0;
  for (int round = 0; round < 400; ++round) {
    const size_t length = 1 + random() % (round % 2 == 0 ? 8 : 5000);
    const size_t at = random() % (whole.size() - length);
    const std::string before = whole.substr(at, length);
    std::string after =
        round % 4 < 2 ? std::string(length, '\0') : whole.substr(random() % (whole.size() - length), length);
    if (round % 4 == 2) after[0] = static_cast<char>(before[0] ^ 0x10);
    put(at, after);
    accepted += after != before && verifies(path);
    put(at, before);
  }
  CHECK(accepted == 0);
  CHECK(verifies(path));
}

TEST_CASE("damaged elements are named, and are refused as initial weights too") {
  const ScratchFolder folder;
  const State state = filled(small_layout());
  const std::string path = folder / "a.h5";
  write_checkpoint(path, state.layout, state.bytes(), sample_meta());
  std::string bytes = bytes_of(path);
  const std::string bias(reinterpret_cast<const char*>(state.bytes()) + state.layout.tensors[1].offset, 24);
  bytes[bytes.find(bias) + 5] ^= 1;
  replace_bytes(path, bytes);
  CHECK(error_of([&] { CheckpointFile::open(path).verify(); }).message() ==
        path + ": /model/layer1.0.bias: its elements are damaged: their digest differs");
  State into(state.layout);
  CHECK(error_of([&] { read_model({path}, into.layout, into.bytes()); }).fault() == Fault::corrupt);
}

TEST_CASE("a checkpoint that lost its seal is no source of weights") {
  const ScratchFolder folder;
  const State state = filled(small_layout());
  const std::string path = folder / "a.h5";
  write_checkpoint(path, state.layout, state.bytes(), sample_meta());
  std::string bytes = bytes_of(path);
  bytes[3] ^= 1;
  replace_bytes(path, bytes);
  State into(state.layout);
  const Error error = error_of([&] { read_model({path}, into.layout, into.bytes()); });
  CHECK(error.fault() == Fault::corrupt);
  CHECK(error.message() == path + ": a checkpoint whose seal is damaged");
}

}  // namespace
}  // namespace estrain::checkpoint
