#include "core/dispatch/speeds.h"

#include <doctest/doctest.h>

#include <limits>

namespace estrain::dispatch {
namespace {

TEST_CASE("what was measured counts, then what is nearest, then what was expected") {
  Speeds speeds;
  CHECK(speeds.step_seconds("cpu", 2, 8) == 4 * Speeds::kUnknownMiniBatch);
  speeds.expect(0.5);
  CHECK(speeds.step_seconds("cpu", 3, 8) == 1.5);
  speeds.observe("cpu", 4, 1.0);
  CHECK(speeds.step_seconds("cpu", 4, 8) == 1.0);
  CHECK(speeds.step_seconds("cpu", 1, 8) == 4.0);
  CHECK(speeds.step_seconds("cpu", 8, 8) == 0.5);
  CHECK(speeds.step_seconds("cuda", 1, 8) == 4.0);
  speeds.observe("cpu", 4, 2.0);
  CHECK(speeds.step_seconds("cpu", 4, 8) == doctest::Approx(1.3));
}

TEST_CASE("steps seen from outside are summed by themselves, by what else was in use") {
  Speeds speeds;
  speeds.observe("cpu", 2, 1.0);
  speeds.took({"cpu", 2, 2}, {10, 15}, 100);
  speeds.took({"cpu", 2, 4}, {10, 30}, 130);
  speeds.took({"cpu", 2, 4}, {10, 25}, 155);
  speeds.took({"cpu", 2, 4}, {0, 100}, 255);
  CHECK(speeds.seen().size() == 2);
  CHECK(speeds.seen().at({"cpu", 2, 2}) == Speeds::Seen{10, 15});
  CHECK(speeds.seen().at({"cpu", 2, 4}) == Speeds::Seen{20, 55});
  CHECK(speeds.step_seconds("cpu", 2, 8) == 1.0);
}

TEST_CASE("it is known how fast a job was when, in pieces that grow with its age") {
  const Speeds::SeenKey alone = {"cpu", 2, 2}, beside = {"cpu", 2, 4};
  Speeds speeds;
  speeds.took(alone, {2, 0.5}, 100.5);
  speeds.took(alone, {4, 0.5}, 101);
  speeds.took(alone, {4, 0.5}, 101.5);
  speeds.took(beside, {1, 0.5}, 102);
  speeds.took(beside, {1, 0.5}, 103);  // something else was between
  CHECK(speeds.paces() ==
        std::vector<Speeds::Pace>{
            {alone, 100, 101, 6}, {alone, 101, 101.5, 4}, {beside, 101.5, 102, 1}, {beside, 102.5, 103, 1}});
  for (double now = 1000; now < 87'400; ++now) speeds.took(alone, {4, 1}, now);
  CHECK(speeds.paces().size() < 1000);
  CHECK(speeds.paces().size() > 300);
}

TEST_CASE("what cannot be a time is passed over") {
  Speeds speeds;
  for (const double bad :
       {0.0, -1.0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()})
    speeds.observe("cpu", 1, bad);
  speeds.observe("cpu", 0, 1);
  CHECK(speeds.measured().empty());
}

}  // namespace
}  // namespace estrain::dispatch
