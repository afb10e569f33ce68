// Data files with impossible headers: sizes whose products overflow, more data than the file has.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <hdf5.h>

#include <algorithm>

#include "core/data/format_table.h"
#include "core/data/formats/dataset.h"
#include "core/formats/h5/file.h"
#include "data_files.h"
#include "unwritten_dataset.h"

namespace estrain::data {
namespace {

using Sizes = std::vector<hsize_t>;

Error refusal_of_hdf5(const Sizes& images, const Sizes& labels) {
  const DataFolder folder;
  const hid_t file = H5Fcreate((folder / "a.h5").c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  add_unwritten(file, "images", H5T_STD_U8LE, images);
  add_unwritten(file, "labels", H5T_STD_I64LE, labels);
  H5Fclose(file);
  spec::DataSection section;
  section.format = spec::DataFormat::hdf5;
  section.path = folder / "a.h5";
  return error_of([&] { open(section, 0, 0); });
}

TEST_CASE("hdf5: a small file that announces more than it holds is corrupt, and no memory is asked for") {
  constexpr hsize_t many = hsize_t{1} << 33;
  const Error labels = refusal_of_hdf5({many, 2, 2}, {many});
  CHECK(labels.fault() == Fault::corrupt);
  CHECK(contains(labels.message(), "labels: declares 68719476736 bytes of data, but the file has"));
  const Error images = refusal_of_hdf5({6, 1 << 16, 1 << 16}, {6});
  CHECK(images.fault() == Fault::corrupt);
  CHECK(contains(images.message(), "images: declares 25769803776 bytes of data, but the file has"));
}

TEST_CASE("hdf5: sizes whose product overflows are corrupt") {
  constexpr hsize_t huge = hsize_t{1} << 31;
  for (const Sizes& sizes : {Sizes{6, huge, huge, huge}, Sizes{0, huge, huge, huge}, Sizes{6, huge, huge, 2}}) {
    const Error error = refusal_of_hdf5(sizes, {sizes[0]});
    CHECK(error.fault() == Fault::corrupt);
    CHECK(contains(error.message(), "declares more elements than any file has"));
  }
}

TEST_CASE("idx: sizes whose product overflows are corrupt, beside a zero too") {
  constexpr uint32_t huge = 0xffffffff;
  for (const std::vector<uint32_t>& dims :
       {std::vector<uint32_t>{0, huge, huge, huge}, {1, huge, huge, 0}, {huge, huge, huge}}) {
    const DataFolder folder;
    folder.write("images", idx_bytes(dims, ""));
    folder.write("labels", idx_bytes({dims[0] == huge ? 0 : dims[0]}, std::string(dims[0] == 1, '\0')));
    spec::DataSection section;
    section.format = spec::DataFormat::idx;
    section.images = folder / "images";
    section.labels = folder / "labels";
    const Error error = error_of([&] { open(section, 0, 0); });
    CHECK(error.fault() == Fault::corrupt);
    CHECK(contains(error.message(), "its header declares more data than memory can hold"));
  }
}

TEST_CASE("hdf5: a label above all numbers of classes is out of range") {
  const DataFolder folder;
  const std::string path = folder / "a.h5";
  for (const int64_t label : {int64_t{INT64_MAX}, int64_t{999'999'999}, int64_t{1'000'000}}) {
    h5::File file = h5::File::create(path);
    {
      h5::Group root = file.root();
      const std::string pixels(8, '\1');
      const std::vector<int64_t> labels = {0, label};
      root.create_dataset("images", h5::Type::u8, {2, 2, 2}).write(h5::Type::u8, pixels.data());
      root.create_dataset("labels", h5::Type::i64, {2}).write(h5::Type::i64, labels.data());
    }
    file.close();
    spec::DataSection section;
    section.format = spec::DataFormat::hdf5;
    section.path = path;
    const Error error = error_of([&] { open(section, 0, 0); });
    CHECK(error.fault() == Fault::corrupt);
    CHECK(contains(error.message(), fmt::format("{}: labels: label {} of sample 1 is out of range: there are at most "
                                                "1000000 classes",
                                                path, label)));
    const DataScan found = scan(section, 0);
    CHECK(found.classes == 0);
    CHECK(std::ranges::any_of(found.findings, [&](const Finding& finding) {
      return finding.severity == Severity::error &&
             contains(finding.seen,
                      fmt::format("{}: labels: 1 of 2 labels are out of range, the first is {} of sample 1: "
                                  "there are at most 1000000 classes",
                                  path, label));
    }));
  }
}

TEST_CASE("hdf5: as many classes as model.classes may say, by labels") {
  const DataFolder folder;
  spec::DataSection section;
  section.format = spec::DataFormat::hdf5;
  section.path = folder / "a.h5";
  h5::File file = h5::File::create(section.path);
  {
    h5::Group root = file.root();
    const std::string pixels(8, '\1');
    const std::vector<int64_t> labels = {0, 999'999};
    root.create_dataset("images", h5::Type::u8, {2, 2, 2}).write(h5::Type::u8, pixels.data());
    root.create_dataset("labels", h5::Type::i64, {2}).write(h5::Type::i64, labels.data());
  }
  file.close();
  CHECK(open(section, 0, 0).train->classes() == 1'000'000);
  CHECK(scan(section, 0).classes == 1'000'000);
}

}  // namespace
}  // namespace estrain::data
