#include "core/inspect/report/charts/axis.h"

#include <doctest/doctest.h>

#include <cmath>

namespace estrain::report {
namespace {

TEST_CASE("a linear axis has round ticks") {
  const Axis axis = Axis::linear(0, 100'000);
  CHECK(axis.ticks(5) == std::vector<double>{0, 20'000, 40'000, 60'000, 80'000, 100'000});
  CHECK(axis.at(50'000) == 0.5);
  CHECK(axis.at(-1) == 0);
  CHECK(axis.at(1e9) == 1);
}

TEST_CASE("numbers over several powers of ten get a logarithmic axis") {
  const Axis axis = Axis::for_values(0.001, 10);
  CHECK(axis.is_logarithmic());
  CHECK(axis.at(0.1) == doctest::Approx(0.5));
  CHECK(axis.ticks(5).size() == 5);
  CHECK_FALSE(Axis::for_values(1, 10).is_logarithmic());
  CHECK_FALSE(Axis::for_values(-1, 100).is_logarithmic());
}

TEST_CASE("an axis of time has round times") {
  CHECK(Axis::linear(0, 5000).time_ticks(5) == std::vector<double>{0, 1800, 3600});
  CHECK(Axis::linear(0, 0.01).time_ticks(5).size() >= 3);
  CHECK(Axis::linear(0, 14).time_ticks(5) == std::vector<double>{0, 5, 10});
  CHECK(Axis::linear(0, 9 * 86400).time_ticks(5) == std::vector<double>{0, 2 * 86400, 4 * 86400, 6 * 86400, 8 * 86400});
}

TEST_CASE("equal, tiny and huge numbers have an axis, too") {
  for (const auto& [low, high] : {std::pair(3.0, 3.0), std::pair(0.0, 0.0), std::pair(1e-310, 1.0),
                                  std::pair(-1e150, 1e150), std::pair(1e15, 1e15 + 1)}) {
    const Axis axis = Axis::for_values(low, high);
    CHECK(std::isfinite(axis.at(low)));
    CHECK(std::isfinite(axis.at(high)));
    CHECK(axis.ticks(5).size() < 20);
  }
}

}  // namespace
}  // namespace estrain::report
