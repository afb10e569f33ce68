#include "core/base/counted.h"

#include <doctest/doctest.h>

#include <cstdint>

namespace estrain {
namespace {

TEST_CASE("a noun has an s behind every number but 1") {
  CHECK(counted(0, "EST") == "0 ESTs");
  CHECK(counted(1, "EST") == "1 EST");
  CHECK(counted(uint64_t{2}, "data file") == "2 data files");
}

}  // namespace
}  // namespace estrain
