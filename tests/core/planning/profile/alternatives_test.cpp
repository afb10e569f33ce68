#include "core/planning/profile/alternatives.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "core/base/error.h"

namespace estrain::profile {
namespace {

using plan::DeviceGroup;
using plan::PlannedJob;
using plan::WorkerShare;

std::vector<std::string> devices_of(const std::vector<Alternative>& all) {
  std::vector<std::string> devices;
  for (const Alternative& one : all) devices.push_back(one.devices);
  return devices;
}

const Alternative& find(const std::vector<Alternative>& all, const std::string& devices) {
  const auto at = std::ranges::find(all, devices, &Alternative::devices);
  REQUIRE(at != all.end());
  return *at;
}

TEST_CASE("the list of devices is what --devices takes, equal neighbours together") {
  const std::vector<DeviceGroup> groups = {{"cpu:avx2", 3, 10}, {"cpu:sse", 2, 5}};
  CHECK(device_list({{0, 3}, {0, 3}, {1, 2}}, groups) == "cpu:avx2=3*2,cpu:sse=2");
  CHECK(device_list({{1, 1}}, groups) == "cpu:sse=1");
}

TEST_CASE("one kind: every number of workers, the quickest first, the best marked") {
  PlannedJob job;
  job.ests = 8;
  const std::vector<Alternative> all = alternatives(job, {{"cpu", 4, 10}}, std::nullopt, 12);
  CHECK(devices_of(all) == std::vector<std::string>{"cpu=2*4", "cpu=2,cpu=3*2", "cpu=4*2", "cpu=8"});
}

TEST_CASE("GPUs of one model work together where kinds do not mix; one of another model does not") {
  PlannedJob job;
  job.ests = 8;
  const DeviceGroup first = {.kind = "cuda:0", .count = 1, .mini_batches_per_second = 10, .model = "A100"};
  DeviceGroup second = first, other = first;
  second.kind = "cuda:1";
  other.kind = "cuda:2";
  other.model = "L4";
  other.mini_batches_per_second = 5;
  const std::vector<Alternative> all = alternatives(job, {first, second, other}, std::nullopt, 12);
  CHECK(all[0].devices == "cuda:0=4,cuda:1=4");
  CHECK(all[0].best);
  CHECK(devices_of(all) == std::vector<std::string>{"cuda:0=4,cuda:1=4", "cuda:0=8", "cuda:1=8", "cuda:2=8"});
  CHECK(find(alternatives(job, {first, other}, std::nullopt, 12), "cuda:0=8").best);
  CHECK_THROWS_AS(plan::evaluate(job, {first, other}, {{0, 4}, {1, 4}}), Error);
}

TEST_CASE("workers that only get in each other's way are shown all the same, and the best is fewer") {
  PlannedJob job;
  job.ests = 4;
  job.crowding = {1, 2.5};
  const std::vector<Alternative> all = alternatives(job, {{"cpu", 2, 10}}, std::nullopt, 12);
  REQUIRE(all.size() == 2);
  CHECK(all[0].devices == "cpu=4");
  CHECK(all[0].best);
  CHECK(all[1].devices == "cpu=2*2");
  CHECK_FALSE(all[1].best);
  CHECK(all[1].plan.step_seconds == doctest::Approx(0.5));
}

TEST_CASE("mixtures where the job may have them, none where not") {
  PlannedJob job;
  job.ests = 6;
  const std::vector<DeviceGroup> groups = {{"cpu:avx2", 1, 20}, {"cpu:sse", 1, 10}};
  const std::vector<Alternative> one_kind = alternatives(job, groups, std::nullopt, 12);
  CHECK(devices_of(one_kind) == std::vector<std::string>{"cpu:avx2=6", "cpu:sse=6"});
  job.one_kind = false;
  const std::vector<Alternative> any = alternatives(job, groups, std::nullopt, 12);
  CHECK(any.size() == 3);
  CHECK(any[0].best);
  CHECK(any[0].plan.workers.size() == 2);
  CHECK(any[0].plan.step_seconds == doctest::Approx(0.2));
}

TEST_CASE("the plan that was given is in the table however slow it is, and the best as well") {
  PlannedJob job;
  job.ests = 8;
  const std::vector<Alternative> all = alternatives(job, {{"cpu", 8, 10}}, std::vector<WorkerShare>{{0, 7}, {0, 1}}, 2);
  CHECK(all.size() == 3);
  CHECK(find(all, "cpu=7,cpu=1").given);
  CHECK(find(all, "cpu=1*8").best);
}

}  // namespace
}  // namespace estrain::profile
