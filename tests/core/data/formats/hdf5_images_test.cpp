// HDF5 files of images and labels, and the errors in them.

#include <doctest/doctest.h>

#include <algorithm>
#include <array>

#include "core/data/format_table.h"
#include "core/formats/h5/file.h"
#include "tests/core/data/formats/opened_samples.h"

namespace estrain::data {
namespace {

using spec::DataFormat;
using spec::DataSection;

template <typename T>
void write_hdf5(const std::string& path, h5::Type type, const std::vector<int64_t>& shape, const std::vector<T>& images,
                const std::vector<int64_t>& labels) {
  h5::File file = h5::File::create(path);
  {
    h5::Group root = file.root();
    root.create_dataset("images", type, shape).write(type, images.data());
    root.create_dataset("labels", h5::Type::i64, {static_cast<int64_t>(labels.size())})
        .write(h5::Type::i64, labels.data());
  }
  file.close();
}

TEST_CASE("hdf5: uint8 and float32, with and without channels") {
  DataFolder folder;
  DataSection section = section_of(DataFormat::hdf5, folder / "train.h5");
  SUBCASE("uint8, colour, with a test file") {
    const std::string pixels = pattern_bytes(2 * 3 * 2 * 2);
    const std::vector<char> values(pixels.begin(), pixels.end());
    write_hdf5(section.path, h5::Type::u8, {2, 3, 2, 2}, values, {1, 4});
    CHECK_FALSE(open(section, 0, 0).test);
    section.test_path = section.path;
    const DataPair pair = open(section, 0, 0);
    CHECK(pair.train->shape() == SampleShape::image(3, 2, 2));
    CHECK(pair.train->classes() == 5);
    CHECK(read_image(*pair.train, 1).input == over_255(pixels.substr(12)));
    CHECK(read_image(*pair.train, 1).target == 4);
    CHECK(read_image(*pair.test, 0).input == over_255(pixels.substr(0, 12)));
  }
  SUBCASE("float32, grey") {
    const std::vector<float> values = {1.5f, -2.0f, 0.25f, 300.0f};
    write_hdf5(section.path, h5::Type::f32, {2, 1, 2}, values, {0, 1});
    const DataPair pair = open(section, 0, 0);
    CHECK(pair.train->shape() == SampleShape::image(1, 1, 2));
    CHECK(read_image(*pair.train, 1).input == std::vector<float>{0.25f, 300.0f});
  }
}

TEST_CASE("hdf5: channels that stand last become planes; what may be either is refused without data.layout") {
  DataFolder folder;
  DataSection section = section_of(DataFormat::hdf5, folder / "train.h5");
  const std::string pixels = pattern_bytes(2 * 5 * 6 * 3);
  const auto planes = [&](size_t image) {
    std::string moved;
    for (size_t c = 0; c < 3; ++c)
      for (size_t i = 0; i < 30; ++i) moved.push_back(pixels[(image * 30 + i) * 3 + c]);
    return moved;
  };
  SUBCASE("uint8") {
    write_hdf5(section.path, h5::Type::u8, {2, 5, 6, 3}, std::vector<char>(pixels.begin(), pixels.end()), {1, 4});
    const Error error = refusal(section);
    CHECK(error.fault() == Fault::mismatch);
    CHECK(contains(error.message(),
                   "train.h5: images of shape [2, 5, 6, 3]: 5 channels of 6 x 3 pixels, or 3 channels of 5 x 6"));
    CHECK(contains(error.advice(), "data.layout = \"nhwc\""));
    CHECK_FALSE(scan(section, 0).fine());
    section.layout = spec::ImageOrder::nhwc;
    section.test_path = section.path;
    const DataPair pair = open(section, 0, 0);
    CHECK(pair.train->shape() == SampleShape::image(3, 5, 6));
    for (int64_t i = 0; i < 2; ++i) CHECK(read_image(*pair.train, i).input == over_255(planes(static_cast<size_t>(i))));
    CHECK(read_image(*pair.test, 1).input == over_255(planes(1)));
    const DataScan found = scan(section, 0);
    CHECK(found.fine());
    CHECK(found.stored_shape == std::vector<int64_t>{3, 5, 6});
    section.layout = spec::ImageOrder::nchw;
    CHECK(open(section, 0, 0).train->shape() == SampleShape::image(5, 6, 3));
  }
  SUBCASE("float32") {
    const std::vector<float> values = {1, 10, 2, 20, 3, 30, 4, 40};
    write_hdf5(section.path, h5::Type::f32, {1, 2, 2, 2}, values, {0});
    CHECK(read_image(*open(section, 0, 0).train, 0).input == values);
    section.layout = spec::ImageOrder::nhwc;
    CHECK(read_image(*open(section, 0, 0).train, 0).input == std::vector<float>{1, 2, 3, 4, 10, 20, 30, 40});
  }
  SUBCASE("without channels") {
    const std::vector<float> values = {1, 2, 3, 4, 5, 6};
    write_hdf5(section.path, h5::Type::f32, {1, 2, 3}, values, {0});
    section.layout = spec::ImageOrder::nhwc;
    CHECK(read_image(*open(section, 0, 0).train, 0).input == values);
  }
  SUBCASE("features of many channels") {
    write_hdf5(section.path, h5::Type::f32, {1, 8, 1, 5}, std::vector<float>(40, 1.0f), {0});
    CHECK(open(section, 0, 0).train->shape() == SampleShape::image(8, 1, 5));
  }
}

TEST_CASE("hdf5: images that h5py compressed by LZF") {
  const DataSection section = section_of(DataFormat::hdf5, std::string(ESTRAIN_SOURCE_DIR) + "/tests/core/data/lzf.h5");
  const DataPair pair = open(section, 0, 0);
  CHECK(pair.train->size() == 6);
  CHECK(read_image(*pair.train, 5).input[71] == static_cast<float>(431 / 3 * 5 % 256) / 255.0f);
  CHECK(scan(section, 0).fine());
}

// chunked.h5, written by h5py: gzipped chunks of (3, 2, 3) of uint8 images whose pixels are 0, 5, 10, …; big-endian
// labels.
TEST_CASE("hdf5: compressed chunks and foreign byte order") {
  const DataPair pair =
      open(section_of(DataFormat::hdf5, std::string(ESTRAIN_SOURCE_DIR) + "/tests/core/data/chunked.h5"), 0, 0);
  CHECK(pair.train->size() == 4);
  CHECK(pair.train->shape() == SampleShape::image(1, 3, 4));
  for (int64_t i = 0; i < 4; ++i) {
    const ImageSample sample = read_image(*pair.train, i);
    CHECK(sample.target == std::array{2, 0, 1, 2}[static_cast<size_t>(i)]);
    for (int64_t p = 0; p < 12; ++p)
      CHECK(sample.input[static_cast<size_t>(p)] == static_cast<float>((i * 12 + p) * 5) / 255.0f);
  }
}

TEST_CASE("hdf5: wrong files") {
  DataFolder folder;
  const DataSection section = section_of(DataFormat::hdf5, folder / "train.h5");
  const std::vector<float> values(8, 1.0f);
  const auto refused = [&](Fault fault, const char* text) {
    const Error error = refusal(section);
    CAPTURE(error.message());
    CHECK(error.fault() == fault);
    CHECK(contains(error.message(), "train.h5"));
    CHECK(contains(error.message(), text));
  };
  SUBCASE("missing") { refused(Fault::io, "train.h5"); }
  SUBCASE("not HDF5") {
    folder.write("train.h5", pattern_bytes(5000));
    refused(Fault::corrupt, "train.h5");
  }
  SUBCASE("counts differ") {
    write_hdf5(section.path, h5::Type::f32, {2, 2, 2}, values, {0, 1, 2});
    refused(Fault::corrupt, "2 images, but 3 labels");
  }
  SUBCASE("label out of range") {
    write_hdf5(section.path, h5::Type::f32, {2, 2, 2}, values, {0, -1});
    refused(Fault::corrupt, "label -1 of sample 1 is out of range");
  }
  SUBCASE("rank") {
    write_hdf5(section.path, h5::Type::f32, {2, 4}, values, {0, 1});
    refused(Fault::mismatch, "images has shape [2, 4]");
  }
  SUBCASE("type") {
    write_hdf5(section.path, h5::Type::f64, {1, 2, 2}, values, {0});
    refused(Fault::mismatch, "neither uint8 nor float32");
  }
  SUBCASE("no labels") {
    h5::File file = h5::File::create(section.path);
    file.root().create_dataset("images", h5::Type::f32, {2, 2, 2}).write(h5::Type::f32, values.data());
    file.close();
    refused(Fault::mismatch, "has no dataset labels");
  }
  SUBCASE("truncated") {
    write_hdf5(section.path, h5::Type::f32, {2, 2, 2}, values, {0, 1});
    const std::string whole = read_all(section.path);
    folder.write("train.h5", whole.substr(0, whole.size() / 2));
    refused(Fault::corrupt, "train.h5");
  }
}

}  // namespace
}  // namespace estrain::data
