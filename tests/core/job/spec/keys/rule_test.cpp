#include "core/job/spec/keys/rule.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

namespace estrain::spec {
namespace {

TEST_CASE("a bound belongs to the range unless it is open, for whole and other numbers") {
  const Interval closed{0, 3}, open{0, 3, true, true};
  CHECK(closed.contains(INT64_C(0)));
  CHECK(closed.contains(INT64_C(3)));
  CHECK_FALSE(closed.contains(INT64_C(-1)));
  CHECK_FALSE(closed.contains(INT64_C(4)));
  CHECK_FALSE(open.contains(INT64_C(0)));
  CHECK_FALSE(open.contains(INT64_C(3)));
  CHECK(closed.contains(3.0));
  CHECK_FALSE(closed.contains(std::nextafter(3.0, 4.0)));
  CHECK_FALSE(open.contains(3.0));
  CHECK(open.contains(std::nextafter(3.0, 0.0)));
  CHECK(open.contains(std::numeric_limits<double>::denorm_min()));
}

TEST_CASE("NaN is in no range that has a bound; infinity is where nothing bounds it") {
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  CHECK_FALSE(Interval{0, {}}.contains(nan));
  CHECK_FALSE(Interval{{}, 1}.contains(nan));
  CHECK_FALSE(Interval{{}, 1}.contains(infinity));
  CHECK(Interval{0, {}}.contains(infinity));
  CHECK(Interval{}.contains(std::numeric_limits<int64_t>::min()));
  CHECK(Interval{{}, 0}.contains(std::numeric_limits<int64_t>::min()));
}

TEST_CASE("a rule in words") {
  CHECK(Interval{}.text().empty());
  CHECK(Interval{1, {}}.text() == ">= 1");
  CHECK(Interval{0, {}, true}.text() == "> 0");
  CHECK(Interval{{}, 5, false, true}.text() == "< 5");
  CHECK(Interval{0, 1, false, true}.text() == "[0, 1)");
  CHECK(Interval{0, 1, true, false}.text() == "(0, 1]");
  Rule lengths, choices, numbers;
  CHECK(lengths.text().empty());
  lengths.lengths = {0, 2};
  lengths.range.low = 0;
  CHECK(lengths.text() == "0 or 2 elements; >= 0");
  choices.choices = {"a", "b"};
  CHECK(choices.text() == "\"a\", \"b\"");
  numbers.numbers = {1, 3};
  numbers.filled = true;
  CHECK(numbers.text() == "1 or 3; not empty");
}

}  // namespace
}  // namespace estrain::spec
