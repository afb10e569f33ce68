#include "core/run/launch/profiling/profiling.h"

#include <doctest/doctest.h>

#include <numeric>
#include <set>

#include "core/state/comm/sums/reduction_tree.h"

namespace estrain::launch {
namespace {

int64_t passed_on(const std::vector<int64_t>& ests) {
  const int64_t total = std::reduce(ests.begin(), ests.end());
  int64_t begin = 0, sums = 0;
  for (const int64_t size : ests) {
    const EstRange range{VirtualRank(begin), VirtualRank(begin + size)};
    sums += comm::plan_fold(comm::SumOrder::tree, total, range).passed_on;
    begin += size;
  }
  return sums;
}

TEST_CASE("several workers are measured with two numbers of partial sums, and always busy alike") {
  for (int64_t workers = 2; workers <= 16; ++workers) {
    CAPTURE(workers);
    std::set<int64_t> sums;
    for (const std::vector<int64_t>& ests : profiling_sets(64, workers)) {
      CHECK(static_cast<int64_t>(ests.size()) == workers);
      CHECK(std::set<int64_t>(ests.begin(), ests.end()).size() == 1);
      sums.insert(passed_on(ests));
    }
    CHECK(sums.size() == 2);
  }
}

TEST_CASE("one worker is measured with two numbers of ESTs, if the job has them") {
  CHECK(profiling_sets(8, 1) == std::vector<std::vector<int64_t>>{{1}, {4}});
  CHECK(profiling_sets(2, 1) == std::vector<std::vector<int64_t>>{{1}, {2}});
  CHECK(profiling_sets(1, 1) == std::vector<std::vector<int64_t>>{{1}});
}

TEST_CASE("a host is told by its processor, the cores and the build") {
  const profile::MachineFacts host = profile_host(3);
  CHECK(host.cores == 3);
  CHECK_FALSE(host.cpu.empty());
  CHECK_FALSE(host.build.empty());
}

TEST_CASE("nothing measured is nothing learned") {
  KindProfile none;
  none.kind = "cpu";
  profile::Profiles profiles;
  none.learn_into(profiles, spec::JobSpec{}, profile_host(1), 0);
  CHECK(profiles.entries().empty());
}

profile::StageSpeed stage(int64_t workers, double mini_batch_seconds) {
  profile::StageSpeed speed;
  speed.steps = 10;
  speed.seconds = 10 * 2 * mini_batch_seconds;
  for (int64_t i = 0; i < workers; ++i) speed.workers.push_back({"cpu", 2, 20, 20 * mini_batch_seconds});
  return speed;
}

TEST_CASE("a profile takes the place of what was known, and a disturbed set leaves the others alone") {
  profile::Profiles profiles;
  const spec::JobSpec job;
  const profile::MachineFacts host{"Some CPU", 4, "1.0"};
  KindProfile wrong, found;
  wrong.kind = found.kind = "cpu";
  wrong.alone = stage(1, 0.090);
  wrong.together = {stage(2, 0.090), stage(4, 0.090)};
  wrong.learn_into(profiles, job, host, 100);
  found.alone = stage(1, 0.010);
  found.together = {stage(2, 0.012), stage(2, 0.020)};
  found.learn_into(profiles, job, host, 200);
  const profile::Capability* known = profiles.find(profile::describe_work(job, "cpu", host));
  REQUIRE(known != nullptr);
  CHECK(known->mini_batch(1)->seconds == doctest::Approx(0.010));
  CHECK(known->mini_batch(1)->samples == 1);
  CHECK(known->mini_batch(2)->seconds == doctest::Approx(0.020));
  CHECK(known->mini_batch(2)->samples == 1);
  CHECK(known->mini_batch(4) == nullptr);
}

}  // namespace
}  // namespace estrain::launch
