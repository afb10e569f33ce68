#include "core/hosts/exchange/host_plan.h"

#include <doctest/doctest.h>

#include <functional>

#include "core/base/error.h"
#include "core/base/json/codec.h"

namespace estrain::hosts {
namespace {

HostPlan plan_of_two_hosts() {
  HostPlan plan;
  plan.stage = 2;
  plan.step = 40;
  plan.evaluation_batch = 8;
  plan.any_processor = plan.clear = plan.allow_mixed = true;
  plan.own = 1;
  plan.devices = {"cpu:0", "cpu:1", "b/cpu:0"};
  plan.grace_seconds = 1.5;
  const auto ests = [](int64_t begin, int64_t end) { return EstRange{VirtualRank(begin), VirtualRank(end)}; };
  plan.hosts = {{.name = "", .address = "", .workers = {ests(0, 2), ests(2, 3)}},
                {.name = "b", .address = "10.0.0.2:7000", .workers = {ests(3, 8)}}};
  return plan;
}

HostPlan plan_from(const Json& json) {
  HostPlan plan;
  codec::from_field(json, plan);
  plan.require_sound();
  return plan;
}

TEST_CASE("a plan of a stage survives JSON") {
  const Json json = codec::to_field(plan_of_two_hosts());
  const HostPlan plan = plan_from(json);
  CHECK(codec::to_field(plan) == json);
  CHECK(plan.ests() == 8);
  CHECK(plan.here().name == "b");
  CHECK(plan.here().ests().begin == VirtualRank(3));
  CHECK(plan.workers_before(1) == 2);
  CHECK(plan.workers_before(2) == 3);
}

TEST_CASE("a plan of a stage that does not hold together is refused") {
  const auto refused = [](const char* why, const std::function<void(Json&)>& spoil) {
    Json json = codec::to_field(plan_of_two_hosts());
    spoil(json);
    CHECK_THROWS_WITH_AS(plan_from(json), doctest::Contains(why), Error);
  };
  refused("no such host", [](Json& json) { json["own"] = 2; });
  refused("no such host", [](Json& json) { json["hosts"] = Json::array(); });
  refused("out of bounds", [](Json& json) { json["stage"] = 0; });
  refused("out of bounds", [](Json& json) { json["stage"] = HostPlan::most_stages; });
  refused("out of bounds", [](Json& json) { json["step"] = HostPlan::most_steps; });
  refused("out of bounds", [](Json& json) { json["evaluation_batch"] = 0; });
  refused("do not follow each other", [](Json& json) { json["hosts"][1]["workers"][0][0] = 4; });
  refused("do not follow each other", [](Json& json) { json["hosts"][0]["workers"][0][1] = 0; });
  refused("without a worker", [](Json& json) { json["hosts"][1]["workers"] = Json::array(); });
  refused("\"clear\" is missing", [](Json& json) { json.erase("clear"); });
  refused("\"sees_run\" is missing", [](Json& json) { json["hosts"][0].erase("sees_run"); });
  refused("not a number", [](Json& json) { json["step"] = "forty"; });
  refused("not a list", [](Json& json) { json["hosts"] = 7; });
}

}  // namespace
}  // namespace estrain::hosts
