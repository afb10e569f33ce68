#include "core/planning/scheduling/speed_model.h"

#include <doctest/doctest.h>

#include <cmath>

namespace estrain::scheduling {
namespace {

// 0.05 + 0.01 b on a device; exchange 0.1 + 0.02 (r - 2) on a host, 0.4 + 0.05 (r - 2) over several; gamma 2.
double truth(int64_t hosts, int64_t devices, double local) {
  const double compute = 0.05 + 0.01 * local, more = static_cast<double>(devices - 2);
  const double network = devices == 1 ? 0 : hosts > 1 ? 0.4 + 0.05 * more : 0.1 + 0.02 * more;
  return std::sqrt(compute * compute + network * network);
}

void observe(SpeedModel& model, int64_t hosts, int64_t devices, int64_t local) {
  const auto batch = static_cast<double>(local);
  model.observe({hosts, devices, local}, 0.05 + 0.01 * batch, truth(hosts, devices, batch));
}

TEST_CASE("a model of what was seen foretells what was not") {
  SpeedModel model;
  CHECK(model.is_empty());
  for (const int64_t local : {4, 8, 16, 32}) {
    observe(model, 1, 1, local);
    observe(model, 1, 2, local);
    observe(model, 1, 4, local);
    observe(model, 2, 4, local);
    observe(model, 2, 8, local);
  }
  CHECK(model.most_devices() == 8);
  CHECK(model.compute_seconds(24) == doctest::Approx(0.29).epsilon(0.02));
  CHECK(model.step_seconds(1, 3, 24) == doctest::Approx(truth(1, 3, 24)).epsilon(0.05));
  CHECK(model.step_seconds(4, 16, 24) == doctest::Approx(truth(4, 16, 24)).epsilon(0.1));
}

TEST_CASE("what has not been seen is taken to be as good as can be") {
  SpeedModel model;
  observe(model, 1, 1, 8);
  CHECK(model.step_seconds(1, 1, 8) == doctest::Approx(0.13).epsilon(0.01));
  CHECK(model.step_seconds(4, 16, 8) == doctest::Approx(0.13).epsilon(0.01));  // no exchange
  CHECK(model.compute_seconds(16) == doctest::Approx(0.195).epsilon(0.01));    // half of it is constant
  observe(model, 1, 2, 8);
  CHECK(model.step_seconds(1, 2, 8) == doctest::Approx(truth(1, 2, 8)).epsilon(0.02));
  CHECK(model.step_seconds(1, 4, 8) == doctest::Approx(truth(1, 2, 8)).epsilon(0.02));
}

TEST_CASE("of a single batch half of the time is taken not to grow with it") {
  SpeedModel model;
  model.observe({1, 1, 2}, 3, 3);
  CHECK(model.compute_seconds(4) == doctest::Approx(4.5).epsilon(0.005));
}

TEST_CASE("the same points give the same model, and a point that is known changes nothing") {
  SpeedModel first, second;
  for (SpeedModel* model : {&first, &second}) {
    observe(*model, 1, 1, 8);
    observe(*model, 1, 4, 16);
  }
  CHECK(!second.observe({1, 4, 16}, 9, 9));
  CHECK(first.step_seconds(1, 3, 12) == second.step_seconds(1, 3, 12));
}

}  // namespace
}  // namespace estrain::scheduling
