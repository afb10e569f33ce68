// HDF5 files whose datasets lie in other files: external links, virtual datasets, external storage.

#include <doctest/doctest.h>
#include <hdf5.h>
#include <sys/stat.h>

#include <filesystem>
#include <numeric>

#include "core/data/files/identity.h"
#include "core/data/format_table.h"
#include "tests/core/data/formats/opened_samples.h"

namespace estrain::data {
namespace {

using spec::DataFormat;
using spec::DataSection;

constexpr hsize_t kShape[4] = {4, 1, 2, 2};

hid_t created(const std::string& path) { return H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT); }

void put_images(hid_t file, const char* name, uint8_t first, hsize_t count = 4) {
  const hsize_t shape[4] = {count, 1, 2, 2};
  std::vector<uint8_t> pixels(4 * count);
  std::iota(pixels.begin(), pixels.end(), first);
  const hid_t space = H5Screate_simple(4, shape, nullptr);
  const hid_t data = H5Dcreate2(file, name, H5T_NATIVE_UINT8, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  REQUIRE(H5Dwrite(data, H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, pixels.data()) >= 0);
  H5Dclose(data), H5Sclose(space);
}

void put_labels(hid_t file) {
  const hsize_t count = 4;
  const int64_t labels[4] = {0, 1, 0, 1};
  const hid_t space = H5Screate_simple(1, &count, nullptr);
  const hid_t data = H5Dcreate2(file, "labels", H5T_NATIVE_INT64, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  H5Dwrite(data, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, labels);
  H5Dclose(data), H5Sclose(space);
}

void write_part(const std::string& path, uint8_t first, hsize_t count = 4) {
  const hid_t file = created(path);
  put_images(file, "images", first, count);
  H5Fclose(file);
}

// `images` leads to the dataset `target` of the file `to`.
void write_linked(const std::string& path, const char* to, const char* target = "images") {
  const hid_t file = created(path);
  put_labels(file);
  put_images(file, "padding", 0, 4000);  // its bytes stand where those of the other file's images would be looked for
  H5Lcreate_external(to, target, file, "images", H5P_DEFAULT, H5P_DEFAULT);
  H5Fclose(file);
}

// `images` has its first two samples in the file `one`, the last two in `other`.
void write_virtual(const std::string& path, const char* one, const char* other) {
  const hid_t file = created(path);
  put_labels(file);
  const hid_t space = H5Screate_simple(4, kShape, nullptr), plan = H5Pcreate(H5P_DATASET_CREATE);
  const hsize_t half[4] = {2, 1, 2, 2}, start[2][4] = {{0, 0, 0, 0}, {2, 0, 0, 0}};
  const hid_t source = H5Screate_simple(4, half, nullptr);
  const char* names[2] = {one, other};
  for (int i = 0; i < 2; ++i) {
    H5Sselect_hyperslab(space, H5S_SELECT_SET, start[i], nullptr, half, nullptr);
    H5Pset_virtual(plan, space, names[i], "images", source);
  }
  const hid_t data = H5Dcreate2(file, "images", H5T_NATIVE_UINT8, space, H5P_DEFAULT, plan, H5P_DEFAULT);
  REQUIRE(data >= 0);
  H5Dclose(data), H5Pclose(plan), H5Sclose(source), H5Sclose(space), H5Fclose(file);
}

float pixel(const Dataset& set, int64_t index) { return read_image(set, index).input[0] * 255; }

// Opening refuses, `check` finds the same, and neither waits for ever.
void refused(const DataSection& section, const std::string& words) {
  const Error error = refusal(section);
  CAPTURE(error.message());
  CHECK(contains(error.message(), words));
  CHECK(!error.advice().empty());
  CHECK_FALSE(scan(section, 0).fine());
}

TEST_CASE("hdf5: images behind an external link are those of the file that it names") {
  const DataFolder folder;
  std::filesystem::create_directory(folder / "parts");
  write_part(folder / "parts/a.h5", 100);
  const DataSection section = section_of(DataFormat::hdf5, folder / "train.h5");
  SUBCASE("the link") { write_linked(section.path, "parts/a.h5"); }
  SUBCASE("a soft link to a group behind one") {
    const hid_t file = created(section.path);
    put_labels(file);
    put_images(file, "padding", 0, 4000);
    H5Lcreate_external("parts/a.h5", "/", file, "elsewhere", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_soft("/elsewhere/images", file, "images", H5P_DEFAULT, H5P_DEFAULT);
    H5Fclose(file);
  }
  SUBCASE("a link to a link") {
    write_linked(folder / "parts/b.h5", "a.h5");
    write_linked(section.path, "parts/b.h5");
  }
  const DataPair pair = open(section, 0, 0);
  CHECK(pair.train->size() == 4);
  CHECK(pixel(*pair.train, 0) == 100);
  CHECK(pixel(*pair.train, 3) == 112);
  CHECK(scan(section, 0).fine());
  CHECK(open(section, 0, 0, std::nullopt, {"images"}).train->size() == 4);
}

TEST_CASE("hdf5: a virtual dataset is that of its sources") {
  const DataFolder folder;
  write_part(folder / "a.h5", 10, 2), write_part(folder / "b.h5", 60, 2);
  const DataSection section = section_of(DataFormat::hdf5, folder / "train.h5");
  write_virtual(section.path, "a.h5", "b.h5");
  const DataPair pair = open(section, 0, 0);
  CHECK(pixel(*pair.train, 1) == 14);
  CHECK(pixel(*pair.train, 2) == 60);
  CHECK(scan(section, 0).fine());
}

TEST_CASE("hdf5: the files that a file leads to are part of the data's identity") {
  const DataFolder folder;
  write_part(folder / "a.h5", 10, 2), write_part(folder / "b.h5", 60, 2), write_part(folder / "c.h5", 90);
  const DataSection section = section_of(DataFormat::hdf5, folder / "train.h5");
  std::string changed;
  SUBCASE("an external link's") {
    write_linked(section.path, "c.h5");
    changed = "c.h5";
  }
  SUBCASE("a virtual dataset's") {
    write_virtual(section.path, "a.h5", "b.h5");
    changed = "b.h5";
  }
  SUBCASE("those behind a source that is a link or virtual itself") {
    write_virtual(folder / "inner.h5", "a.h5", "b.h5");
    write_linked(section.path, "inner.h5");
    changed = "b.h5";
  }
  const DataIdentity known = identify(open(section, 0, 0).files);
  CHECK(is_untouched(known, file_names(section)));
  std::string bytes = read_all(folder / changed);
  bytes[bytes.size() - 3] = static_cast<char>(bytes[bytes.size() - 3] ^ 1);
  std::filesystem::remove(folder / changed);
  folder.write(changed, bytes);
  CHECK_FALSE(is_untouched(known, file_names(section)));
  const Error error = error_of([&] { require_same(known, open(section, 0, 0).files); });
  CHECK(contains(error.message(), changed));
  std::filesystem::remove(folder / changed);
  CHECK_FALSE(is_untouched(known, file_names(section)));
}

TEST_CASE("hdf5: a source that is absent, none or a FIFO is refused by name") {
  const DataFolder folder;
  write_part(folder / "a.h5", 10, 2);
  const DataSection section = section_of(DataFormat::hdf5, folder / "train.h5");
  std::filesystem::create_directory(folder / "folder.h5");
  REQUIRE(::mkfifo((folder / "fifo.h5").c_str(), 0600) == 0);
  folder.write("text.h5", "no HDF5 file");
  SUBCASE("a link to nothing") {
    write_linked(section.path, "gone.h5");
    refused(section, "gone.h5: no such file");
  }
  SUBCASE("a link to a FIFO") {
    write_linked(section.path, "fifo.h5");
    refused(section, "fifo.h5: not a regular file");
  }
  SUBCASE("a link to a folder") {
    write_linked(section.path, "folder.h5");
    refused(section, "folder.h5: not a regular file");
  }
  SUBCASE("a link to another kind of file") {
    write_linked(section.path, "text.h5");
    refused(section, "text.h5: no HDF5 file");
  }
  SUBCASE("a link to another dataset than there is") {
    write_linked(section.path, "a.h5", "pictures");
    refused(section, "a.h5: has no pictures");
  }
  SUBCASE("links in a circle") {
    write_linked(folder / "b.h5", "train.h5");
    write_linked(section.path, "b.h5");
    refused(section, "more than 16");
  }
  SUBCASE("a source of a virtual dataset that is not there") {
    write_virtual(section.path, "a.h5", "gone.h5");
    refused(section, "gone.h5: no such file");
  }
  SUBCASE("a source that is a FIFO") {
    write_virtual(section.path, "a.h5", "fifo.h5");
    refused(section, "fifo.h5: not a regular file");
  }
  SUBCASE("a source that has become shorter") {
    write_part(folder / "b.h5", 10, 1);
    write_virtual(section.path, "a.h5", "b.h5");
    refused(section, "b.h5: images has become smaller");
  }
  SUBCASE("a source without the dataset") {
    H5Fclose(created(folder / "b.h5"));
    write_virtual(section.path, "a.h5", "b.h5");
    refused(section, "b.h5: has no images");
  }
}

TEST_CASE("hdf5: elements in raw files beside the file are refused, whatever they are") {
  const DataFolder folder;
  const DataSection section = section_of(DataFormat::hdf5, folder / "train.h5");
  const hid_t file = created(section.path), plan = H5Pcreate(H5P_DATASET_CREATE);
  put_labels(file);
  REQUIRE(::mkfifo((folder / "raw").c_str(), 0600) == 0);
  H5Pset_external(plan, (folder / "raw").c_str(), 0, 16);
  const hid_t space = H5Screate_simple(4, kShape, nullptr);
  H5Dclose(H5Dcreate2(file, "images", H5T_NATIVE_UINT8, space, H5P_DEFAULT, plan, H5P_DEFAULT));
  H5Pclose(plan), H5Sclose(space), H5Fclose(file);
  refused(section, "images: has its elements in raw files (external storage), the first is " + folder / "raw");
}

}  // namespace
}  // namespace estrain::data
