#include "core/data/reading/sample_weights.h"

#include <doctest/doctest.h>

#include "core/data/formats/holdout.h"
#include "core/formats/h5/file.h"
#include "core/formats/h5/group.h"
#include "tests/core/data/data_files.h"
#include "tests/core/data/unwritten_dataset.h"

namespace estrain::data {
namespace {

struct FourSamples : Dataset {
  int64_t size() const override { return 4; }
  SampleShape shape() const override { return SampleShape::vector(1); }
  int64_t classes() const override { return 2; }
  void read(int64_t, const SampleDraw&, std::byte*, int64_t*) const override {}
};

std::vector<double> weights_in(const std::string& place, const Dataset& train) {
  spec::DataSection section;
  section.sample_weights = place;
  return read_sample_weights(open_files(weight_files(section)).front(), section, train);
}

std::string weights_refused(const DataFolder& folder, const std::string& content) {
  folder.write("weights", content);
  return error_of([&] { (void)weights_in(folder / "weights", FourSamples()); }).message();
}

std::string npy_of_four(const std::string& type, const std::string& values) {
  std::string header = "{'descr': '" + type + "', 'fortran_order': False, 'shape': (4,), }";
  header.resize(117, ' ');
  header += '\n';
  return std::string("\x93NUMPY\x01\0\x76\0", 10) + header + values;
}

template <typename T>
std::string bytes_of_four(T a, T b, T c, T d) {
  const T values[] = {a, b, c, d};
  return {reinterpret_cast<const char*>(values), sizeof(values)};
}

const std::vector<double> kFour = {1, 0, 2.5, 4};

TEST_CASE("weights are read from text, numpy and HDF5") {
  const DataFolder folder;
  folder.write("w.txt", "1 0\n2.5\r\n\t4e0\n");
  CHECK(weights_in(folder / "w.txt", FourSamples()) == kFour);
  folder.write("w:1", "1 0 2.5 4");
  CHECK(weights_in(folder / "w:1", FourSamples()) == kFour);
  folder.write("w.npy", npy_of_four("<f8", bytes_of_four<double>(1, 0, 2.5, 4)));
  CHECK(weights_in(folder / "w.npy", FourSamples()) == kFour);
  folder.write("w.npy", npy_of_four("<f4", bytes_of_four<float>(1, 0, 2.5, 4)));
  CHECK(weights_in(folder / "w.npy", FourSamples()) == kFour);
  folder.write("w.npy", npy_of_four("<i4", bytes_of_four<int32_t>(1, 0, 2, 4)));
  CHECK(weights_in(folder / "w.npy", FourSamples()) == std::vector<double>{1, 0, 2, 4});
  {
    h5::Group root = h5::File::create(folder / "w.h5").root();
    root.create_dataset("weights", h5::Type::f64, {4}).write(h5::Type::f64, kFour.data());
  }
  CHECK(weights_in(folder / "w.h5:weights", FourSamples()) == kFour);
  CHECK(contains(error_of([&] { (void)weights_in(folder / "w.h5:other", FourSamples()); }).message(),
                 "w.h5: no dataset other"));
}

TEST_CASE("weights that are no weights are refused in words") {
  const DataFolder folder;
  CHECK(contains(weights_refused(folder, "1 2 3"), "weights: 3 weights for 4 training samples"));
  CHECK(contains(weights_refused(folder, "1 2 3 4 5"), "5 weights for 4"));
  CHECK(contains(weights_refused(folder, ""), "0 weights for 4"));
  CHECK(contains(weights_refused(folder, "1 2 -3 4"), "weight 2 is -3: neither 0 nor a number above 0"));
  CHECK(contains(weights_refused(folder, "1 nan 3 4"), "weight 1 is nan"));
  CHECK(contains(weights_refused(folder, "1 2 3 inf"), "weight 3 is inf"));
  CHECK(contains(weights_refused(folder, "1 2,5 3 4"), "weight 1 is not a number"));
  CHECK(contains(weights_refused(folder, "0 0 0 0"), "sum to 0"));
  CHECK(contains(weights_refused(folder, npy_of_four("<f8", "123")), "truncated: its header declares 4"));
  CHECK(contains(weights_refused(folder, npy_of_four("<c8", "")), "holds '<c8'"));
}

TEST_CASE("an HDF5 file that announces more weights than any memory holds is refused before they are read") {
  const DataFolder folder;
  const std::string path = folder / "w.h5";
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  add_unwritten(file, "weights", H5T_NATIVE_DOUBLE, {hsize_t{1} << 50});
  H5Fclose(file);
  const Error error = error_of([&] { (void)weights_in(path + ":weights", FourSamples()); });
  CHECK(error.fault() == Fault::mismatch);
  CHECK(contains(error.message(), "w.h5: 1125899906842624 weights for 4 training samples"));
}

TEST_CASE("with data.holdout, the weights are those of all samples, and of the kept ones none is used") {
  const DataFolder folder;
  folder.write("w.txt", "10 11 12 13");
  DataPair pair;
  pair.train = std::make_unique<FourSamples>();
  hold_out(pair, {0, 0, 0, 0}, 0.25, 0);
  REQUIRE(pair.train->size() == 3);
  const std::vector<double> weights = weights_in(folder / "w.txt", *pair.train);
  REQUIRE(weights.size() == 3);
  for (int64_t i = 0; i < 3; ++i)
    CHECK(weights[static_cast<size_t>(i)] == 10 + static_cast<double>(pair.train->stored_number(i)));
  CHECK(weights.back() - weights.front() >= 2);
}

}  // namespace
}  // namespace estrain::data
