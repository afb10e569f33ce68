#include "core/planning/dispatch/speeds/speeds.h"

#include <doctest/doctest.h>

#include <limits>

namespace estrain::dispatch {
namespace {

TEST_CASE("what was measured counts, then what is nearest, then what was expected") {
  JobSpeeds speeds;
  CHECK(speeds.step_seconds({"cpu", 2, 1}, 8) == 4 * JobSpeeds::kUnknownMiniBatch);
  speeds.expect(0.5);
  CHECK(speeds.step_seconds({"cpu", 3, 1}, 8) == 1.5);
  speeds.observe({"cpu", 4, 1}, 1.0);
  CHECK(speeds.step_seconds({"cpu", 4, 1}, 8) == 1.0);
  CHECK(speeds.step_seconds({"cpu", 1, 1}, 8) == 4.0);
  CHECK(speeds.step_seconds({"cpu", 8, 1}, 8) == 0.5);
  CHECK(speeds.step_seconds({"cuda", 1, 1}, 8) == 4.0);
  speeds.observe({"cpu", 4, 1}, 2.0);
  CHECK(speeds.step_seconds({"cpu", 4, 1}, 8) == doctest::Approx(1.3));
}

TEST_CASE("steps over several hosts are measured by themselves") {
  JobSpeeds speeds;
  speeds.expect(0.25);
  speeds.observe({"cpu", 2, 2}, 2.0);
  CHECK(speeds.step_seconds({"cpu", 2, 2}, 8) == 2.0);
  CHECK(speeds.step_seconds({"cpu", 4, 3}, 8) == 1.0);
  CHECK(speeds.step_seconds({"cpu", 2, 1}, 8) == 1.0);  // as tried: less is exchanged than ever measured
  speeds.observe({"cpu", 8, 1}, 0.5);
  CHECK(speeds.step_seconds({"cpu", 2, 1}, 8) == 2.0);  // of as many hosts, with other devices
  CHECK(speeds.step_seconds({"cpu", 2, 2}, 8) == 2.0);
  CHECK(speeds.step_seconds({"cpu", 8, 3}, 8) == 0.5);  // the nearest number of hosts
}

TEST_CASE("a step on several types takes the pace of the set, and as much longer as measured steps did") {
  JobSpeeds speeds;
  speeds.observe_mini_batch("avx2", 0.2);
  speeds.observe_mini_batch("avx512", 0.1);
  const auto step = [&](const DeviceSet& devices, int64_t ests) {
    return speeds.step_seconds(JobSpeeds::key_of(devices, 1), ests);
  };
  const DeviceSet set = {{"avx2", 2}, {"avx512", 1}};
  CHECK(text_of(set) == "avx2*2+avx512*1");
  CHECK(step(set, 8) == doctest::Approx(0.4));
  CHECK(step(set, 9) == doctest::Approx(0.5));
  CHECK(step(set, 1) == doctest::Approx(0.1));  // the others have nothing to do
  CHECK(step({{"avx2", 2}}, 8) == doctest::Approx(0.8));
  speeds.observe({"avx2", 1, 1}, 2);  // of eight mini-batches: 1.25 times the pace
  CHECK(step(set, 8) == doctest::Approx(0.5));
  CHECK(step({{"avx512", 1}}, 8) == doctest::Approx(1));
  speeds.observe(JobSpeeds::key_of(set, 1), 0.7);
  CHECK(step(set, 8) == doctest::Approx(0.7));
  speeds.rescale(2);
  CHECK(step(set, 8) == doctest::Approx(1.4));
  CHECK(speeds.mini_batch("avx2") == doctest::Approx(0.4));
}

TEST_CASE("steps seen from outside are summed by themselves, by what else was in use") {
  JobSpeeds speeds;
  speeds.observe({"cpu", 2, 1}, 1.0);
  speeds.saw({"cpu", 2, 2, 10, 15}, 100);
  speeds.saw({"cpu", 2, 4.4, 10, 30}, 130);
  speeds.saw({"cpu", 2, 3.6, 10, 25}, 155);
  speeds.saw({"cpu", 2, 4, 0, 100}, 255);
  CHECK(speeds.seen().size() == 2);
  CHECK(speeds.seen().at({"cpu", 2, 2}) == JobSpeeds::Seen{10, 15});
  CHECK(speeds.seen().at({"cpu", 2, 4}) == JobSpeeds::Seen{20, 55});
  CHECK(speeds.step_seconds({"cpu", 2, 1}, 8) == 1.0);
}

TEST_CASE("it is known how fast a job was when, look by look while it is young, in longer pieces later") {
  JobSpeeds speeds;
  speeds.saw({"cpu", 2, 2, 2, 0.5}, 100.5);
  speeds.saw({"cpu", 2, 2, 4, 0.5, 0.125}, 101);
  speeds.saw({"cpu", 2, 3.5, 1, 0.5, 0.25}, 101.5);
  speeds.saw({"cpu", 2, 3.5, 1, 0.5, 0.25}, 102.5);  // something else was between
  CHECK(speeds.paces().all() == std::vector<JobSpeeds::Pace>{{"cpu", 2, 2, 100, 100.5, 2, 0},
                                                             {"cpu", 2, 2, 100.5, 101, 4, 0.125},
                                                             {"cpu", 2, 3.5, 101, 101.5, 1, 0.25},
                                                             {"cpu", 2, 3.5, 102, 102.5, 1, 0.25}});
  for (double now = 1000; now < 87'400; ++now) speeds.saw({"cpu", 2, now < 50'000 ? 3.0 : 3.25, 4, 1, 0.25}, now);
  CHECK(speeds.paces().size() < 1000);
  CHECK(speeds.paces().size() > 300);
  CHECK(speeds.paces().all().back().in_use == doctest::Approx(3.25));
  speeds.saw({"cpu", 2, 3.25, 1, 1, 0}, 87'400);  // its launcher tells nothing as it ends
  CHECK(speeds.paces().all().back().told == 0.25);
  CHECK(speeds.paces().all().back().to == 87'400);
}

TEST_CASE("a copy of what is known of a job's pace stays as it is, and equals another with the same pieces") {
  JobSpeeds speeds;
  for (int i = 0; i < 6; ++i) speeds.saw({"cpu", 2, i % 2 == 0 ? 2.0 : 4.0, 1, 0.5}, 100.5 + 0.5 * i);
  const JobSpeeds copy = speeds;
  CHECK(copy == speeds);
  const std::vector<JobSpeeds::Pace> before = copy.paces().all();
  REQUIRE(before.size() == 6);
  speeds.saw({"cpu", 2, 4, 1, 0.01}, 103.01);
  speeds.saw({"cpu", 2, 4, 1, 0.01}, 103.02);  // that piece goes on
  CHECK_FALSE(copy == speeds);
  CHECK(copy.paces().all() == before);
  CHECK(speeds.paces().size() == 7);
  JobSpeeds same;
  for (const auto& [key, seen] : speeds.seen()) same.restore(key, seen);
  for (const JobSpeeds::Pace& pace : speeds.paces().all()) same.restore(pace);
  CHECK(same == speeds);
  JobSpeeds shorter;
  for (const auto& [key, seen] : speeds.seen()) shorter.restore(key, seen);
  for (const JobSpeeds::Pace& pace : speeds.paces().all()) {
    if (pace.from > 100) shorter.restore(pace);
  }
  CHECK_FALSE(shorter == speeds);
}

TEST_CASE("what cannot be a time is passed over") {
  JobSpeeds speeds;
  for (const double bad :
       {0.0, -1.0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()})
    speeds.observe({"cpu", 1, 1}, bad);
  speeds.observe({"cpu", 0, 1}, 1);
  CHECK(speeds.measured().empty());
}

}  // namespace
}  // namespace estrain::dispatch
