#include "core/simulate/worlds/pool_world.h"

#include <doctest/doctest.h>

#include "tests/core/simulate/small_worlds.h"
#include "tests/error_of.h"

namespace estrain::simulate {
namespace {

const std::string kTrace =
    "name,submit_s,ests,devices,most,steps,start_s,step_s_1,step_s_2\n"
    "1,0,2,2,2,100,3,1,0.5\n2,1.5,2,1,2,10,2,1,0.6\n";

TEST_CASE("a pool's history again: starts cost what they did, and every policy decides when something happens") {
  const ScratchFolder folder;
  const auto world = open_world({"", folder.write("t.csv", kTrace), "1x2", 10});
  // 3 s to start and 100 steps of 0.5 s; the second waits until then.
  CHECK(jcts(run_once(*world, "1", "fifo"))["1"] == doctest::Approx(53));
  CHECK(jcts(run_once(*world, "1", "fifo"))["2"] == doctest::Approx(53 + 2 + 10 - 1.5));
  // The second takes a device at once. The first is started again when it is done, which costs 3 s again.
  CHECK(jcts(run_once(*world, "1", "srtf"))["2"] == doctest::Approx(12));
  CHECK(jcts(run_once(*world, "1", "srtf"))["1"] == doctest::Approx(13.5 + 3 + 50));
}

TEST_CASE("a growth costs the charge, and rounds go on between events") {
  const ScratchFolder folder;
  const std::string one = "name,submit_s,ests,devices,most,steps,start_s,step_s_1,step_s_2\n1,0,2,1,2,100,0,1,0.5\n";
  const auto world = open_world({"", folder.write("t.csv", one), "1x2", 10});
  // On one device until the round at 10 s, then on two, after 4 s.
  CHECK(jcts(run_once(*world, "1", "easyscale-homo", {Charge::Kind::seconds, 4}))["1"] == doctest::Approx(10 + 4 + 45));
}

TEST_CASE("devices that were taken are away for as long: jobs shrink, to none if need be, and get them back") {
  const ScratchFolder folder;
  const std::string one = "name,submit_s,ests,devices,most,steps,start_s,step_s_1,step_s_2\n1,0,2,2,2,100,0,1,0.5\n";
  const auto jct = [&](const std::string& taken) {
    return jcts(run_once(*open_world({"", folder.write("t.csv", one + taken), "1x2", 1000}), "1", "fifo"))["1"];
  };
  CHECK(jct("") == doctest::Approx(50));
  // 20 steps on two devices, 20 on one, 60 on two.
  CHECK(jct("(taken),10,1,1,1,0,20,0,0\n") == doctest::Approx(10 + 20 + 30));
  CHECK(jct("(taken),10,1,2,1,0,20,0,0\n") == doctest::Approx(10 + 20 + 40));
  // It begins on the one device that there is.
  CHECK(jct("(taken),0,1,1,1,0,20,0,0\n") == doctest::Approx(100));
}

TEST_CASE("a pool's trace wants a cluster that its jobs fit on") {
  const ScratchFolder folder;
  const std::string trace = folder.write("t.csv", kTrace);
  CHECK(error_of([&] { open_world({"", trace, ""}); }).fault() == Fault::usage);
  CHECK(error_of([&] { open_world({"", trace, "1x1"}); }).fault() == Fault::infeasible);
  CHECK(error_of([&] {
          open_world({"", folder.write("e.csv", kTrace.substr(0, kTrace.find('\n') + 1)), "1x2"});
        }).fault() == Fault::spec);
}

}  // namespace
}  // namespace estrain::simulate
