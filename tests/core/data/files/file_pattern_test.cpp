#include "core/data/files/file_pattern.h"

#include <doctest/doctest.h>

#include "tests/core/data/data_files.h"

namespace estrain::data {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

TEST_CASE("a pattern stands for the files with such names, in sorted order") {
  const DataFolder folder;
  for (const char* name : {"b2.bin", "b10.bin", "a.bin", ".b1.bin", "b1.txt", "B1.bin"}) folder.write(name, "");
  CHECK(files_like(folder / "b*.bin") == Names{folder / "b10.bin", folder / "b2.bin"});
  CHECK(files_like(folder / "?.bin") == Names{folder / "a.bin"});
  CHECK(files_like(folder / "[aB]*.bin") == Names{folder / "B1.bin", folder / "a.bin"});
  CHECK(files_like(folder / ".*.bin") == Names{folder / ".b1.bin"});
  CHECK(error_of([&] { (void)files_like(folder / "c*"); }).fault() == Fault::io);
}

TEST_CASE("a pattern may describe folders, and a name that exists is no pattern") {
  const DataFolder folder;
  fs::create_directories(folder / "run[1]/x");
  fs::create_directories(folder / "run[1]/y");
  folder.write("run[1]/x/1.bin", "");
  folder.write("run[1]/y/1.bin", "");
  folder.write("run[1]/[1].bin", "");
  CHECK(files_like(folder / "run[1]/*/?.bin") == Names{folder / "run[1]/x/1.bin", folder / "run[1]/y/1.bin"});
  CHECK_FALSE(is_file_pattern(folder / "run[1]/[1].bin"));
  CHECK_FALSE(is_file_pattern(folder / "nowhere"));
  CHECK(is_file_pattern(folder / "run[1]/*"));
}

TEST_CASE("each file of a pattern is told apart by what the pattern describes") {
  const DataFolder folder;
  fs::create_directory(folder / "x");
  folder.write("x/1.bin", "");
  folder.write("x/2.bin", "");
  const std::vector<FileName> names = spread({"training data", folder / "*/*.bin"});
  REQUIRE(names.size() == 2);
  CHECK(names[0].what == "training data x/1.bin");
  CHECK(names[1].what == "training data x/2.bin");
  CHECK(names[1].path == folder / "x/2.bin");
  CHECK(spread({"training data", folder / "x/1.bin"}).front().what == "training data");
}

}  // namespace
}  // namespace estrain::data
