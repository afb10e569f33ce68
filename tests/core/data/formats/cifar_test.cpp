// Files of CIFAR-10 and CIFAR-100, and the errors in them.

#include <doctest/doctest.h>

#include <algorithm>
#include <array>

#include "tests/core/data/formats/opened_samples.h"

namespace estrain::data {
namespace {

using spec::DataFormat;
using spec::DataSection;

struct Cifar10Folder : DataFolder {
  Cifar10Folder() {
    for (int file = 1; file <= 5; ++file)
      write(
          "data_batch_" + std::to_string(file) + ".bin",
          cifar_records(std::vector<std::string>(static_cast<size_t>(file), std::string(1, static_cast<char>(file)))));
    write("test_batch.bin", cifar_records({std::string(1, 9)}));
  }
};

TEST_CASE("cifar10: five files in order") {
  Cifar10Folder folder;
  const DataPair pair = open(section_of(DataFormat::cifar10, folder.path()), 0, 0);
  CHECK(pair.train->size() == 15);
  CHECK(pair.train->classes() == 10);
  CHECK(pair.train->shape() == SampleShape::image(3, 32, 32));
  for (int64_t file = 1, index = 0; file <= 5; ++file) {
    for (int64_t i = 0; i < file; ++i, ++index) {
      const ImageSample sample = read_image(*pair.train, index);
      CHECK(sample.target == file);
      CHECK(sample.input == over_255(pattern_bytes(3072, static_cast<unsigned>(i))));
    }
  }
  CHECK(read_image(*pair.test, 0).target == 9);
}

TEST_CASE("cifar10: wrong files") {
  Cifar10Folder folder;
  const DataSection section = section_of(DataFormat::cifar10, folder.path());
  SUBCASE("missing") {
    std::filesystem::remove(folder / "data_batch_4.bin");
    const Error error = refusal(section);
    CHECK(error.fault() == Fault::io);
    CHECK(contains(error.message(), folder / "data_batch_4.bin"));
  }
  SUBCASE("truncated, empty") {
    for (size_t keep : {size_t{0}, size_t{1}, size_t{3072}, size_t{3074}}) {
      folder.write("data_batch_2.bin", read_all(folder / "data_batch_2.bin").substr(0, keep));
      const Error error = refusal(section);
      CHECK(error.fault() == Fault::corrupt);
      CHECK(contains(error.message(), folder / "data_batch_2.bin"));
      folder.write("data_batch_2.bin", cifar_records({"\1", "\1"}));
    }
  }
  SUBCASE("label out of range, counted within its file") {
    folder.write("data_batch_3.bin", cifar_records({"\1", "\12", "\1"}));
    const Error error = refusal(section);
    CHECK(error.fault() == Fault::corrupt);
    CHECK(contains(error.message(), folder / "data_batch_3.bin"));
    CHECK(contains(error.message(), "label 10 of sample 1 is out of range: there are 10 classes"));
  }
}

TEST_CASE("cifar100 takes the fine labels") {
  DataFolder folder;
  folder.write("train.bin", cifar_records({"\1\x63", "\23\7"}));
  folder.write("test.bin", cifar_records({"\2\3"}));
  const DataPair pair = open(section_of(DataFormat::cifar100, folder.path()), 0, 0);
  CHECK(pair.train->classes() == 100);
  CHECK(read_image(*pair.train, 0).target == 99);
  CHECK(read_image(*pair.train, 1).target == 7);
  CHECK(read_image(*pair.train, 1).input == over_255(pattern_bytes(3072, 1)));
  CHECK(pair.test->size() == 1);
}

}  // namespace
}  // namespace estrain::data
