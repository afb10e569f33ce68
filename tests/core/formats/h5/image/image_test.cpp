#include "core/formats/h5/image/image.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>

#include "core/formats/h5/file.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace estrain::h5 {
namespace {

struct Built {
  FileImage image;
  uint64_t weight, bias;  // file offsets
};

Built build() {
  FileImage image = FileImage::create({.user_block = 1024});
  uint64_t weight = 0, bias = 0;
  {
    Group root = image.root();
    root.set_string("kind", "test");
    weight = root.create_dataset("model/weight", Type::f32, {100, 30}).offset().value();
    CHECK_FALSE(root.create_dataset("model/empty", Type::f32, {0}).offset().has_value());
    bias = root.create_dataset("model/bias", Type::f32, {3}).offset().value();
    root.link("model/weight", "model/tied");
    for (int i = 0; i < 200; ++i) root.create_dataset("many/" + std::to_string(i), Type::u8, {1}).set_u64("digest", 7);
  }
  return {std::move(image), weight, bias};
}

std::vector<char> bytes_of(const FileImage& image) {
  std::vector<char> bytes(image.length());
  image.read(0, reinterpret_cast<std::byte*>(bytes.data()), bytes.size());
  return bytes;
}

TEST_CASE("a finished image with its elements filled in is an HDF5 file") {
  Built built = build();
  built.image.finish();
  std::vector<char> bytes = bytes_of(built.image);
  const float bias[3] = {1, 2, 3};
  std::vector<float> weight(3000, 0.5f);
  std::memcpy(bytes.data() + built.bias, bias, sizeof bias);
  std::memcpy(bytes.data() + built.weight, weight.data(), 12000);
  const ScratchFolder folder;
  const std::string path = folder / "image.h5";
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));

  const File file = File::open(path);
  std::vector<float> read(3000);
  file.root().dataset("model/tied").read(Type::f32, read.data());
  CHECK(read == weight);
  file.root().dataset("model/bias").read(Type::f32, read.data());
  CHECK(std::equal(bias, bias + 3, read.data()));
  CHECK(file.root().dataset("model/bias").offset() == built.bias);
  CHECK(file.root().get_string("kind") == "test");
  CHECK(file.root().dataset("many/199").get_u64("digest") == 7);
}

TEST_CASE("the user block is left alone and datasets lie one behind the other") {
  Built built = build();
  built.image.finish();
  const std::vector<char> bytes = bytes_of(built.image);
  CHECK(std::all_of(bytes.begin(), bytes.begin() + 1024, [](char byte) { return byte == 0; }));
  CHECK(std::string(bytes.data() + 1025, 3) == "HDF");
  CHECK(built.bias == built.weight + 12000);
}

TEST_CASE("the same calls give the same bytes") {
  Built one = build(), two = build();
  one.image.finish();
  two.image.finish();
  CHECK(bytes_of(one.image) == bytes_of(two.image));
}

TEST_CASE("a structure in memory is read as the file would be") {
  Built built = build();
  built.image.finish();
  SparseBytes structure;
  const std::vector<char> bytes = bytes_of(built.image);
  structure.write(0, reinterpret_cast<const std::byte*>(bytes.data()), bytes.size());
  const FileImage image = FileImage::open(std::move(structure), bytes.size(), "run/x.h5");
  CHECK(image.root().get_string("kind") == "test");
  CHECK(image.root().dataset("model/weight").offset() == built.weight);
}

TEST_CASE("nonsense instead of a structure is corrupt and names the file") {
  const Error error = error_of([] { (void)FileImage::open(SparseBytes(), 5000, "run/x.h5"); });
  CHECK(error.fault() == Fault::corrupt);
  CHECK(error.message().starts_with("run/x.h5: "));
}

}  // namespace
}  // namespace estrain::h5
