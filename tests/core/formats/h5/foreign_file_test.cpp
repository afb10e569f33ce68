// Files as written by other programs, made with the HDF5 library itself.
#include <doctest/doctest.h>
#include <hdf5.h>

#include <numeric>

#include "core/formats/h5/file.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace estrain::h5 {
namespace {

void write_foreign(const std::string& path) {
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const hsize_t size[2] = {100, 6}, chunk[2] = {7, 6};
  std::vector<int16_t> values(600);
  std::iota(values.begin(), values.end(), int16_t{-300});
  const hid_t space = H5Screate_simple(2, size, nullptr);

  const hid_t chunked = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(chunked, 2, chunk);
  H5Pset_deflate(chunked, 4);
  const hid_t zipped = H5Dcreate2(file, "zipped", H5T_STD_I16LE, space, H5P_DEFAULT, chunked, H5P_DEFAULT);
  H5Dwrite(zipped, H5T_NATIVE_INT16, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
  H5Dclose(zipped);

  const hid_t swapped = H5Dcreate2(file, "swapped", H5T_IEEE_F32BE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  H5Dwrite(swapped, H5T_NATIVE_INT16, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
  H5Dclose(swapped);

  const hid_t fixed = H5Tcopy(H5T_C_S1);
  H5Tset_size(fixed, 5);
  const hid_t words = H5Dcreate2(file, "words", fixed, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t scalar = H5Screate(H5S_SCALAR);
  const hid_t text = H5Acreate2(words, "text", fixed, scalar, H5P_DEFAULT, H5P_DEFAULT);
  H5Awrite(text, fixed, "abc\0\0");
  const hid_t pair = H5Acreate2(words, "pair", H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t small = H5Acreate2(words, "small", H5T_STD_U8LE, scalar, H5P_DEFAULT, H5P_DEFAULT);
  const uint8_t seven = 7;
  H5Awrite(small, H5T_NATIVE_UINT8, &seven);
  H5Lcreate_soft("/nowhere", file, "dangling", H5P_DEFAULT, H5P_DEFAULT);
  for (const hid_t id : {text, pair, small}) H5Aclose(id);
  H5Dclose(words);
  H5Pclose(chunked);
  H5Tclose(fixed);
  H5Sclose(space);
  H5Sclose(scalar);
  H5Fclose(file);
}

TEST_CASE("chunked, compressed and foreign-endian datasets are read with conversion and have no offset") {
  const ScratchFolder folder;
  const std::string path = folder / "foreign.h5";
  write_foreign(path);
  const File file = File::open(path);
  for (const char* name : {"zipped", "swapped"}) {
    CAPTURE(name);
    const DatasetObject dataset = file.root().dataset(name);
    CHECK_FALSE(dataset.offset().has_value());
    CHECK(dataset.numeric());
    std::vector<float> row(12);
    dataset.read_rows(Type::f32, 50, 2, row.data());
    CHECK(row.front() == 0);
    CHECK(row.back() == 11);
  }
  CHECK(file.root().dataset("zipped").type() == Type::i16);
  CHECK(file.root().dataset("swapped").type() == Type::f32);
}

TEST_CASE("what is no number is refused; fixed strings and small integers are read as attributes") {
  const ScratchFolder folder;
  const std::string path = folder / "foreign.h5";
  write_foreign(path);
  const File file = File::open(path);
  const DatasetObject words = file.root().dataset("words");
  CHECK(words.type() == Type::other);
  CHECK_FALSE(words.numeric());
  float out = 0;
  CHECK(error_of([&] { words.read(Type::f32, &out); }).fault() == Fault::mismatch);
  CHECK(words.get_string("text") == "abc");
  CHECK(words.get_i64("small") == 7);
  CHECK(error_of([&] { (void)words.get_i64("pair"); }).message().find("is not a scalar") != std::string::npos);
}

TEST_CASE("children of a file with no creation order come by name, and a dangling link is neither group nor dataset") {
  const ScratchFolder folder;
  const std::string path = folder / "foreign.h5";
  write_foreign(path);
  const File file = File::open(path);
  const std::vector<Child> children = file.root().children();
  REQUIRE(children.size() == 4);
  CHECK(children[0].name == "dangling");
  CHECK(children[0].kind == Child::Kind::other);
  CHECK(children[3].name == "zipped");
}

}  // namespace
}  // namespace estrain::h5
