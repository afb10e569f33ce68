#include "core/inspect/report/charts/labels.h"

#include <doctest/doctest.h>

#include <limits>

namespace estrain::report {
namespace {

TEST_CASE("numbers and durations are short") {
  CHECK(short_number(0.029148) == "0.02915");
  CHECK(short_number(std::numeric_limits<double>::quiet_NaN()) == "NaN");
  CHECK(short_number(-std::numeric_limits<double>::infinity()) == "-infinity");
  CHECK(duration(0.42) == "0.42 s");
  CHECK(duration(45) == "45 s");
  CHECK(duration(45.25) == "45.2 s");
  CHECK(duration(185) == "3 min 05 s");
  CHECK(duration(7800) == "2 h 10 min");
  CHECK(duration(4 * 86400 + 3 * 3600) == "4 d 03 h");
  CHECK(duration(std::numeric_limits<double>::quiet_NaN()) == "-");
}

}  // namespace
}  // namespace estrain::report
