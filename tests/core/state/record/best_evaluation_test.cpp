#include "core/state/record/best_evaluation.h"

#include <doctest/doctest.h>

#include <limits>

namespace estrain::record {
namespace {

TEST_CASE("the best evaluation is the first of the lowest loss, or of the highest accuracy; NaN is none") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  BestEvaluation loss(spec::Best::loss), accuracy(spec::Best::accuracy), none(spec::Best::none);
  CHECK_FALSE(loss.step().has_value());
  CHECK_FALSE(loss.take({Step(1), nan, 0.1, 10}));
  CHECK(loss.take({Step(2), 3.0, 0.5, 10}));
  CHECK_FALSE(loss.take({Step(4), 3.0, 0.6, 10}));
  CHECK(loss.take({Step(6), 2.5, 0.4, 10}));
  CHECK_FALSE(loss.take({Step(8), 2.6, 0.9, 10}));
  CHECK(loss.step() == Step(6));

  CHECK_FALSE(accuracy.take({Step(1), 1.0, 0, 0}));
  CHECK(accuracy.take({Step(2), 3.0, 0, 10}));
  CHECK(accuracy.take({Step(4), 9.0, 0.6, 10}));
  CHECK_FALSE(accuracy.take({Step(6), 1.0, 0.6, 10}));
  CHECK(accuracy.step() == Step(4));

  CHECK_FALSE(none.take({Step(2), 3.0, 0.5, 10}));
  CHECK_FALSE(none.step().has_value());
}

}  // namespace
}  // namespace estrain::record
