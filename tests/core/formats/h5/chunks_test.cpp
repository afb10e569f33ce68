#include "core/formats/h5/chunks.h"

#include <doctest/doctest.h>
#include <hdf5.h>
#include <zlib.h>

#include <functional>
#include <vector>

#include "core/formats/h5/file.h"
#include "core/formats/h5/filters.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace estrain::h5 {
namespace {

using Stored = std::string;

// Two chunks of four bytes, "abcd" without filters, and `stored` with the filters of the plan. HDF5 must not know LZF
// meanwhile, which is only read.
void write_chunks(const std::string& path, const std::function<void(hid_t plan)>& add_filters, const Stored& stored) {
  H5Zunregister(kLzf);
  const hsize_t size = 8, chunk = 4;
  hsize_t at = 0;
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t space = H5Screate_simple(1, &size, nullptr), plan = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(plan, 1, &chunk);
  add_filters(plan);
  const uint32_t no_filters = (1u << H5Pget_nfilters(plan)) - 1;
  const hid_t data = H5Dcreate2(file, "v", H5T_NATIVE_UINT8, space, H5P_DEFAULT, plan, H5P_DEFAULT);
  REQUIRE(data >= 0);
  REQUIRE(H5Dwrite_chunk(data, H5P_DEFAULT, no_filters, &at, 4, "abcd") >= 0);
  at = 4;
  REQUIRE(H5Dwrite_chunk(data, H5P_DEFAULT, 0, &at, stored.size(), stored.data()) >= 0);
  H5Dclose(data), H5Pclose(plan), H5Sclose(space), H5Fclose(file);
  set_up_filters();
}

Stored deflated(const std::string& bytes) {
  Stored stored(100, 0);
  uLongf size = stored.size();
  REQUIRE(compress(reinterpret_cast<Bytef*>(stored.data()), &size, reinterpret_cast<const Bytef*>(bytes.data()),
                   bytes.size()) == Z_OK);
  stored.resize(size);
  return stored;
}

TEST_CASE("a chunk that gives fewer bytes than a chunk has is refused by name: HDF5 would read behind its bytes") {
  const ScratchFolder folder;
  const std::string path = folder / "short.h5";
  struct Case {
    const char* name;
    std::function<void(hid_t)> add_filters;
    Stored stored;
    int holds;
  };
  const auto checksum = [](hid_t plan) { H5Pset_fletcher32(plan); };
  const auto deflate = [](hid_t plan) { H5Pset_deflate(plan, 4); };
  const std::vector<Case> cases = {
      {"no filter", [](hid_t) {}, "ef", 2},
      {"shuffle", [](hid_t plan) { H5Pset_shuffle(plan); }, "efg", 3},
      {"fletcher32", checksum, "efghijk", 3},
      {"less than a checksum", checksum, "efg", 0},
      {"deflate", deflate, deflated("ef"), 2},
      {"deflate behind shuffle",
       [&](hid_t plan) {
         H5Pset_shuffle(plan);
         deflate(plan);
       },
       deflated("efg"), 3},
      {"deflate before fletcher32",
       [&](hid_t plan) {
         deflate(plan);
         checksum(plan);
       },
       deflated("ef") + "sums", 2},
  };
  uint8_t out[8] = {};
  for (const Case& one : cases) {
    INFO(one.name);
    write_chunks(path, one.add_filters, one.stored);
    const File file = File::open(path);
    const DatasetObject data = file.root().dataset("v");
    const std::string message =
        path + ": /v: the chunk at element (4) holds " + std::to_string(one.holds) + " bytes, and a chunk has 4";
    const Error all = error_of([&] { data.read(Type::u8, out); });
    CHECK(all.fault() == Fault::corrupt);
    CHECK(all.message() == message);
    CHECK(error_of([&] { data.read_rows(Type::u8, 6, 1, out); }).message() == message);
  }
}

// As HDF5 stores it behind the bytes "efgh" (fletcher32).
Stored checksum_of(const std::string& bytes) {
  uint32_t low = 0, high = 0;
  for (size_t i = 0; i < bytes.size(); i += 2) {
    low += static_cast<uint32_t>(static_cast<uint8_t>(bytes[i])) << 8 | static_cast<uint8_t>(bytes[i + 1]);
    high += low;
  }
  const uint32_t sum = high % 65535 << 16 | low % 65535;
  return Stored(reinterpret_cast<const char*>(&sum), 4);
}

TEST_CASE("whole chunks are read, with filters or left-out filters; so are chunks that are not stored") {
  const ScratchFolder folder;
  const std::string path = folder / "whole.h5";
  const auto text = [&](const std::function<void(hid_t)>& add_filters, const Stored& stored) {
    write_chunks(path, add_filters, stored);
    std::string out(8, ' ');
    File::open(path).root().dataset("v").read(Type::u8, out.data());
    return out;
  };
  CHECK(text([](hid_t) {}, "efgh") == "abcdefgh");
  CHECK(text([](hid_t plan) { H5Pset_shuffle(plan); }, "efgh") == "abcdefgh");
  CHECK(text([](hid_t plan) { H5Pset_deflate(plan, 4); }, deflated("efgh")) == "abcdefgh");
  // LZF: runs of literals, the count less one before each. The checksum of "efgh" is behind the bytes that LZF gives.
  const auto checked_lzf = [](hid_t plan) {
    const unsigned values[] = {4, 261, 4};
    H5Pset_fletcher32(plan);
    H5Pset_filter(plan, kLzf, H5Z_FLAG_OPTIONAL, 3, values);
  };
  CHECK(text(checked_lzf, Stored("\7efgh") + checksum_of("efgh")) == "abcdefgh");
  const hsize_t size[] = {3, 5}, chunk[] = {2, 2};
  {
    const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const hid_t space = H5Screate_simple(2, size, nullptr), plan = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(plan, 2, chunk), H5Pset_shuffle(plan), H5Pset_deflate(plan, 4), H5Pset_fletcher32(plan);
    H5Dclose(H5Dcreate2(file, "empty", H5T_NATIVE_INT, space, H5P_DEFAULT, plan, H5P_DEFAULT));
    const hid_t data = H5Dcreate2(file, "v", H5T_NATIVE_INT, space, H5P_DEFAULT, plan, H5P_DEFAULT);
    std::vector<int> numbers(15);
    for (int i = 0; i < 15; ++i) numbers[static_cast<size_t>(i)] = i * i;
    H5Dwrite(data, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers.data());
    H5Dclose(data), H5Pclose(plan), H5Sclose(space), H5Fclose(file);
  }
  {
    const hsize_t cells = 8, part = 4;
    const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    const hid_t space = H5Screate_simple(1, &cells, nullptr), plan = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(plan, 1, &part), H5Pset_deflate(plan, 4);
    const hid_t data = H5Dcreate2(file, "half", H5T_NATIVE_UINT8, space, H5P_DEFAULT, plan, H5P_DEFAULT);
    const hsize_t at = 4;
    const Stored stored = deflated("efgh");
    REQUIRE(H5Dwrite_chunk(data, H5P_DEFAULT, 0, &at, stored.size(), stored.data()) >= 0);
    H5Dclose(data), H5Pclose(plan), H5Sclose(space), H5Fclose(file);
  }
  const File file = File::open(path);
  std::string half(8, ' ');
  file.root().dataset("half").read(Type::u8, half.data());
  CHECK(half == Stored(4, '\0') + "efgh");
  std::vector<int32_t> numbers(15, 1);
  file.root().dataset("empty").read(Type::i32, numbers.data());
  CHECK(numbers == std::vector<int32_t>(15, 0));
  file.root().dataset("v").read(Type::i32, numbers.data());
  CHECK(numbers[14] == 196);
  file.root().dataset("v").read_rows(Type::i32, 2, 1, numbers.data());
  CHECK(numbers[4] == 196);
}

}  // namespace
}  // namespace estrain::h5
