#include <doctest/doctest.h>

#include <filesystem>

#include "core/base/error.h"
#include "core/data/format_table.h"
#include "tests/scratch_folder.h"

namespace estrain::data {
namespace {

TEST_CASE("a folder's files tell its format") {
  const std::pair<std::vector<const char*>, spec::DataFormat> cases[] = {
      {{"train-images-idx3-ubyte.gz"}, spec::DataFormat::idx},
      {{"train-images-idx3-ubyte"}, spec::DataFormat::idx},
      {{"data_batch_1.bin", "test_batch.bin"}, spec::DataFormat::cifar10},
      {{"train.bin", "test.bin"}, spec::DataFormat::cifar100},
  };
  for (const auto& [names, format] : cases) {
    const ScratchFolder folder;
    for (const char* name : names) (void)folder.write(name, "x");
    const spec::DataSection found = recognise(folder.path());
    CHECK(found.format == format);
    CHECK(found.path == folder.path());
  }
}

TEST_CASE("train.h5 and test.h5 are named as files") {
  const ScratchFolder folder;
  const std::string train = folder.write("train.h5", "x"), test = folder.write("test.h5", "x");
  CHECK(recognise(folder.path()).path == train);
  CHECK(recognise(folder.path()).test_path == test);
}

TEST_CASE("a file's first bytes tell its format") {
  const ScratchFolder folder;
  CHECK(recognise(folder.write("a", "some words\n")).format == spec::DataFormat::text);
  CHECK(recognise(folder.write("b", "\x89HDF\r\n\x1a\n ...")).format == spec::DataFormat::hdf5);
  CHECK_THROWS_AS(recognise(folder.write("c", std::string("a\0b", 3))), Error);
  CHECK_THROWS_AS(recognise(folder.write("d", "")), Error);
  CHECK_THROWS_AS(recognise(folder / "nowhere"), Error);
  CHECK_THROWS_AS(recognise("/dev/zero"), Error);
}

}  // namespace
}  // namespace estrain::data
