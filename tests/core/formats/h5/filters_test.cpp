#include "core/formats/h5/filters.h"

#include <doctest/doctest.h>
#include <hdf5.h>

#include <fstream>
#include <iterator>

#include "core/formats/h5/file.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace estrain::h5 {
namespace {

using FilterValues = std::vector<unsigned>;

// One chunk of four bytes, as if it had gone through this filter, which HDF5 must not know meanwhile: LZF is only read.
void write_filtered(const std::string& path, H5Z_filter_t filter, const std::string& stored,
                    const FilterValues& values = {}) {
  H5Zunregister(filter);
  const hsize_t size = 4, start = 0;
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t space = H5Screate_simple(1, &size, nullptr), plan = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(plan, 1, &size);
  H5Pset_filter(plan, filter, H5Z_FLAG_OPTIONAL, values.size(), values.data());
  const hid_t data = H5Dcreate2(file, "v", H5T_NATIVE_UINT8, space, H5P_DEFAULT, plan, H5P_DEFAULT);
  REQUIRE(data >= 0);
  REQUIRE(H5Dwrite_chunk(data, H5P_DEFAULT, 0, &start, stored.size(), stored.data()) >= 0);
  H5Dclose(data), H5Pclose(plan), H5Sclose(space), H5Fclose(file);
  set_up_filters();
}

template <typename Number>
std::vector<Number> numbers_of(const DatasetObject& data, Type as) {
  std::vector<Number> values(static_cast<size_t>(data.elements()));
  data.read(as, values.data());
  return values;
}

// lzf.h5, written by h5py: chunks that LZF shrinks, with bytes shuffled before, and chunks of noise, which it stores as
// they are.
TEST_CASE("h5py's LZF is read without a plugin") {
  const File file = File::open(std::string(ESTRAIN_SOURCE_DIR) + "/tests/core/data/lzf.h5");
  const auto images = numbers_of<uint8_t>(file.root().dataset("images"), Type::u8);
  REQUIRE(images.size() == 6 * 8 * 9);
  for (size_t i = 0; i < images.size(); ++i) CHECK(images[i] == i / 3 * 5 % 256);
  const auto runs = numbers_of<float>(file.root().dataset("runs"), Type::f32);
  REQUIRE(runs.size() == 6000);
  for (size_t i = 0; i < runs.size(); ++i) CHECK(runs[i] == static_cast<float>(i / 1000));
  const auto noise = numbers_of<uint8_t>(file.root().dataset("noise"), Type::u8);
  uint64_t sum = 0;
  for (size_t i = 0; i < noise.size(); ++i) sum += noise[i] * (i + 1);
  CHECK(sum == 3593302);
}

TEST_CASE("LZF that is damaged is an error, not other numbers") {
  const ScratchFolder folder;
  const std::string path = folder / "damaged.h5";
  for (const std::string& stored : {std::string("\x03"
                                                "ab"),
                                    std::string("\x20\x05"), std::string("\xff")}) {
    write_filtered(path, 32000, stored, {4, 261, 4});
    uint8_t out[4] = {};
    const File file = File::open(path);
    const Error error = error_of([&] { file.root().dataset("v").read(Type::u8, out); });
    CHECK(error.fault() == Fault::corrupt);
    CHECK(error.message().find("declares chunks") == std::string::npos);
  }
}

TEST_CASE("LZF of chunks that are declared too small is refused: HDF5 would read behind their bytes") {
  const ScratchFolder folder;
  const std::string path = folder / "small.h5",
                    two_bytes(
                        "\x01"
                        "ab"),
                    four_bytes(
                        "\x03"
                        "abcd");
  uint8_t out[4] = {};
  for (const auto& [values, declared] : {std::pair(FilterValues{4, 261, 2}, "2"), std::pair(FilterValues{4, 261}, "0"),
                                         std::pair(FilterValues{}, "0")}) {
    const size_t count = values.size();
    CAPTURE(count);
    write_filtered(path, 32000, two_bytes, values);
    const File file = File::open(path);
    const Error error = error_of([&] { file.root().dataset("v").read(Type::u8, out); });
    CHECK(error.fault() == Fault::corrupt);
    CHECK(error.message() ==
          path + ": /v: declares chunks of " + declared + " bytes to LZF, and has chunks of 4 bytes");
  }
  write_filtered(path, 32000, four_bytes, {4, 261, 4});
  File::open(path).root().dataset("v").read(Type::u8, out);
  CHECK(std::string(out, out + 4) == "abcd");
}

TEST_CASE("a filter that cannot be had is named, with what helps") {
  const ScratchFolder folder;
  const std::string path = folder / "packed.h5";
  for (const auto& [filter, name] :
       {std::pair(32001, "blosc"), std::pair(32015, "zstd"), std::pair(400, "an unknown filter")}) {
    write_filtered(path, filter, "abcd");
    const File file = File::open(path);
    uint8_t out[4] = {};
    const Error error = error_of([&] { file.root().dataset("v").read(Type::u8, out); });
    CHECK(error.fault() == Fault::mismatch);
    CHECK(error.message() == path + ": /v: is stored by " + name + " (HDF5's filter " + std::to_string(filter) +
                                 "), which is not built in");
    CHECK(error.advice().find("h5repack") != std::string::npos);
    CHECK(error.advice().find("data.plugins = true") != std::string::npos);
  }
}

bool plugin_is_loaded() {
  std::ifstream maps("/proc/self/maps");
  const std::string all{std::istreambuf_iterator<char>(maps), {}};
  return all.find("estrain_test_filter") != std::string::npos;
}

TEST_CASE("plugins are loaded only once that is allowed") {
  const ScratchFolder folder;
  const std::string path = folder / "plugged.h5";
  write_filtered(path, 511, std::string("\x01\x02\x03\xff"));
  REQUIRE(H5PLprepend(ESTRAIN_HDF5_PLUGINS) >= 0);
  const File file = File::open(path);
  const DatasetObject data = file.root().dataset("v");
  uint8_t out[4] = {};
  CHECK(error_of([&] { data.read(Type::u8, out); }).fault() == Fault::mismatch);
  CHECK_FALSE(plugin_is_loaded());
  allow_plugins();
  data.read(Type::u8, out);
  CHECK(plugin_is_loaded());
  CHECK(out[0] == 2);
  CHECK(out[3] == 0);
  H5PLset_loading_state(0);  // as the other cases expect
}

}  // namespace
}  // namespace estrain::h5
