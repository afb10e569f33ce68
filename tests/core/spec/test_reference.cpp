// configs/REFERENCE.md shows the keys as the program knows them.

#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "core/spec/parse.h"

namespace estrain::spec {
namespace {

TEST_CASE("The table of keys in configs/REFERENCE.md is what `estrain train --keys` prints") {
  std::ifstream file(ESTRAIN_SOURCE_DIR "/configs/REFERENCE.md");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::string begin_mark = "<!-- keys -->\n", end_mark = "<!-- /keys -->";
  const size_t begin = text.find(begin_mark), end = text.find(end_mark);
  REQUIRE(begin != std::string::npos);
  REQUIRE(end != std::string::npos);
  const size_t table = begin + begin_mark.size();
  CHECK(text.substr(table, end - table) == key_reference());
}

}  // namespace
}  // namespace estrain::spec
