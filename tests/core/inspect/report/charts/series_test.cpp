#include "core/inspect/report/charts/series.h"

#include <doctest/doctest.h>

#include <limits>

namespace estrain::report {
namespace {

TEST_CASE("few steps stay as they are") {
  Series series;
  for (int64_t step = 1; step <= 5; ++step) series.add(step, static_cast<double>(10 * step));
  REQUIRE(series.spans().size() == 5);
  CHECK(series.width() == 1);
  CHECK(series.spans()[2].first == 3);
  CHECK(series.spans()[2].mean() == 30);
  CHECK(series.last_value() == 50);
}

TEST_CASE("many steps become few spans, which still hold every step and the one spike") {
  Series series;
  const int64_t steps = 1'000'000;
  for (int64_t step = 1; step <= steps; ++step) series.add(step, step == 700'001 ? 99 : 1);
  CHECK(series.spans().size() <= Series::kMostSpans);
  CHECK(series.spans().size() > Series::kMostSpans / 4);
  int64_t counted = 0, next = 1;
  double highest = 0;
  for (const Span& span : series.spans()) {
    CHECK(span.first == next);
    next = span.last + 1;
    counted += span.count;
    highest = std::max(highest, span.high);
    CHECK(span.low == 1);
  }
  CHECK(counted == steps);
  CHECK(next == steps + 1);
  CHECK(highest == 99);
  const std::vector<Span> few = series.in_spans(10);
  CHECK(few.size() <= 10);
  CHECK(few.front().first == 1);
  CHECK(few.back().last == steps);
}

TEST_CASE("two runs that began at other steps have the same spans") {
  Series whole, resumed;
  for (int64_t step = 1; step <= 50'000; ++step) whole.add(step, 1);
  for (int64_t step = 10'000; step <= 50'000; ++step) resumed.add(step, 1);
  REQUIRE(whole.width() == resumed.width());
  CHECK(whole.spans().back().first == resumed.spans().back().first);
  CHECK(whole.spans()[500].first == 500 * whole.width());
}

TEST_CASE("what is not finite is counted and is no part of a span") {
  Series series;
  series.add(1, 1);
  series.add(2, std::numeric_limits<double>::quiet_NaN());
  series.add(3, std::numeric_limits<double>::infinity());
  series.add(4, 1e300);  // its square is infinite
  series.add(5, 2);
  CHECK(series.not_finite() == 3);
  CHECK(series.first_not_finite() == 2);
  CHECK(series.spans().size() == 2);
}

TEST_CASE("steps of a damaged file, as large as they can be or falling, come to an end") {
  Series series;
  for (int64_t i = 0; i < 5000; ++i) series.add(i * (std::numeric_limits<int64_t>::max() / 5000), 1);
  CHECK(series.spans().size() <= Series::kMostSpans);
  const size_t before = series.spans().size();
  series.add(5, 1);
  CHECK(series.spans().size() == before);
}

}  // namespace
}  // namespace estrain::report
