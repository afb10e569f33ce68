#include "core/pool/overview.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "core/base/visible_text.h"

namespace estrain::pool {
namespace {

using dispatch::Slot;

// Two devices of the daemon's host and three of another one; a job has two of them.
dispatch::State devices_of_two_hosts() {
  dispatch::State state;
  state.slots = {{1, "cpu", Slot::State::present, false, 7, 1000},
                 {2, "cpu:avx2", Slot::State::away, false, 0, 1060},
                 {3, "nodeB/cuda:1", Slot::State::present, false, 0, 0},
                 {4, "nodeB/cpu", Slot::State::leaving, true, 7, 1000},
                 {5, "nodeB/cpu", Slot::State::leaving, false, 7, 1000}};
  state.jobs[7].request.name = "lenet";
  state.jobs[7].request.user = "anna";
  state.jobs[7].request.uid = 1000;
  return state;
}

TEST_CASE("devices are listed with their host, what uses them and since when") {
  const Json devices = devices_json(devices_of_two_hosts(), "nodeA");
  REQUIRE(devices.size() == 5);
  CHECK(devices[0] == Json{{"device", "cpu"},
                           {"host", "nodeA"},
                           {"type", "cpu"},
                           {"state", "in use"},
                           {"for_good", false},
                           {"job", 7},
                           {"guest", nullptr},
                           {"name", "lenet"},
                           {"user", "anna"},
                           {"since", 1000.0}});
  CHECK(devices[2] == Json{{"device", "nodeB/cuda:1"},
                           {"host", "nodeB"},
                           {"type", "cuda"},
                           {"state", "free"},
                           {"for_good", false},
                           {"job", nullptr},
                           {"guest", nullptr},
                           {"name", nullptr},
                           {"user", nullptr},
                           {"since", nullptr}});
}

TEST_CASE("the status tells the racks of devices, as far as they are known") {
  dispatch::State state = devices_of_two_hosts();
  state.racks = {{"nodeB", "r\n7"}};
  const Json status = status_json(state, true, 1090);
  CHECK(status.at("devices")[0].at("rack").is_null());
  CHECK(status.at("devices")[2].at("rack") == "r\n7");
  const std::string text = format_status(status);
  CHECK(text.find("  cpu          in use, job 7\n") != std::string::npos);
  CHECK(text.find("  nodeB/cuda:1 free, rack r 7\n") != std::string::npos);
}

TEST_CASE("the status lists the jobs that are held, and why") {
  dispatch::State state = devices_of_two_hosts();
  state.jobs[8].phase = dispatch::Phase::held;
  state.jobs[8].reason = "3 jobs of anna failed by user_code\n";
  const Json status = status_json(state, true, 1090);
  CHECK(status.at("held") == Json::array({{{"job", 8}, {"reason", state.jobs[8].reason}}}));
  CHECK(status.at("jobs").at("held") == 1);
  CHECK(format_status(status).find("held         job 8: 3 jobs of anna failed by user_code \n") != std::string::npos);
}

TEST_CASE("the status tells where guests are, whom they slowed, and counts their time apart") {
  dispatch::State state = devices_of_two_hosts();
  state.jobs[7].attained = 30;
  dispatch::Job& guest = state.jobs[9];
  guest.request.background = true;
  guest.phase = dispatch::Phase::running;
  guest.beside = 7;
  guest.not_beside = {3};
  guest.attained = 20;
  state.slots[0].guest = 9;
  state.tolerance = 0.1;
  const Json status = status_json(state, true, 100);
  CHECK(status.at("guests") == Json::array({{{"job", 9}, {"beside", 7}, {"devices", {"cpu"}}}}));
  CHECK(status.at("parted") == Json::array({{{"job", 3}, {"guest", 9}}}));
  CHECK(status.at("utilisation") == 30.0 / 500);
  const std::string text = format_status(status);
  INFO(text);
  CHECK(text.find("  cpu          in use, job 7, guest 9\n") != std::string::npos);
  CHECK(text.find("guest        job 9 beside job 7\n") != std::string::npos);
  CHECK(text.find("parted       job 3 was slowed by guest 9: by more than 10 %\n") != std::string::npos);
  CHECK(text.find("guests       20 device-seconds, not counted") != std::string::npos);
  CHECK(jobs_json(PoolDirectory("pool"), state)[1].at("beside") == 7);
  CHECK(jobs_json(PoolDirectory("pool"), state)[0].at("uid") == 1000);
}

TEST_CASE("the status tells the memory of the hosts with devices, what jobs need of it, and who waits for memory") {
  dispatch::State state = devices_of_two_hosts();
  state.memory = {{"", 0x1p33}, {"nodeB", 0x1p34}, {"gone", 0x1p34}};
  state.jobs[7].memory.needs = {0x1p30, 0x1p29};
  state.gpu_memory = {{"nodeB/cuda:1", 0x1p34}, {"nodeB/cuda:2", 0x1p34}, {"gone/cuda:0", 0x1p34}};
  state.slots.push_back({6, "nodeB/cuda:2", Slot::State::present, false, 10, 1000});
  state.jobs[10].id = 10;
  state.jobs[10].memory.gpus = {0x1p32, 0x1p31};
  state.jobs[10].memory.gpu_ratio = 2;
  state.jobs[8].phase = state.jobs[9].phase = dispatch::Phase::waiting;
  state.jobs[8].memory.waits_since = 5;
  state.jobs[8].reason = "waits for memory: much\n";
  const Json status = status_json(state, true, 100);
  CHECK(status.at("memory") == Json::array({{{"host", ""}, {"bytes", 0x1p33}, {"needed", 1.5 * 0x1p30}},
                                            {{"host", "nodeB"}, {"bytes", 0x1p34}, {"needed", 0x1p31}}}));
  CHECK(status.at("gpu_memory") == Json::array({{{"device", "nodeB/cuda:1"}, {"bytes", 0x1p34}, {"needed", 0.0}},
                                                {{"device", "nodeB/cuda:2"}, {"bytes", 0x1p34}, {"needed", 0x1p33}}}));
  const std::string text = format_status(status);
  INFO(text);
  CHECK(text.find("memory       1.5 GiB of 8.0 GiB needed by jobs\n") != std::string::npos);
  CHECK(text.find("memory       nodeB: 2.0 GiB of 16.0 GiB needed by jobs\n") != std::string::npos);
  CHECK(text.find("memory       nodeB/cuda:2: 8.0 GiB of 16.0 GiB needed by jobs\n") != std::string::npos);
  CHECK(text.find("waits        job 8: waits for memory: much \n") != std::string::npos);
  CHECK(text.find("job 9") == std::string::npos);
}

TEST_CASE("the table of devices tells those that are taken from those that are removed for good") {
  dispatch::State state = devices_of_two_hosts();
  state.slots[2].guest = 9;
  const std::string text = format_devices(devices_json(state, "nodeA"), 1090);
  INFO(text);
  CHECK(text ==
        "host         device             state             job  name             user            since  guest\n"
        "nodeA        cpu                in use              7  lenet            anna         1:30 min      -\n"
        "nodeA        cpu:avx2           away, taken         -  -                -                30 s      -\n"
        "nodeB        nodeB/cuda:1       free                -  -                -                   -      9\n"
        "nodeB        nodeB/cpu          leaving, removed    7  lenet            anna         1:30 min      -\n"
        "nodeB        nodeB/cpu          leaving, taken      7  lenet            anna         1:30 min      -\n");
  CHECK(format_devices(Json::array(), 0) == "no devices; estrain pool devices add, or estrain agent --pool\n");
}

// A pool in which everything that somebody else may have named has an escape sequence, and a line of its own.
TEST_CASE("nothing that users, hosts or runs say reaches the terminal as an escape or a line; JSON has all of it") {
  const std::string evil =
      "a\x1B]0;b\x07\x1B[2J\nc\xC2\x9B"
      "d";
  dispatch::State state;
  state.policy = evil;
  dispatch::Job& job = state.jobs[1];
  job.id = 1;
  job.phase = dispatch::Phase::failed;
  job.request.name = job.request.user = job.reason = evil;
  state.usage[evil] = {1, 0};
  state.slots = {{1, "cpu", Slot::State::present, false, 1, 0}};
  const std::vector<Line> lines = {{0, 1, "ended", 1, evil, {evil}}};
  const Json status = status_json(state, true, 0), devices = devices_json(state, evil);
  const auto lines_in = [](const std::string& text) { return std::ranges::count(text, '\n'); };
  for (const auto& [text, count] : {std::pair{format_jobs(state, 0), 2},
                                    {format_devices(devices, 0), 2},
                                    {format_history(lines), 1},
                                    {format_status(status), 6}}) {
    CHECK(text == visible(text));
    CHECK(text.find("]0;b") != std::string::npos);
    CHECK(lines_in(text) == count);
  }
  CHECK(jobs_json(PoolDirectory("pool"), state)[0].at("user") == evil);
  CHECK(jobs_json(PoolDirectory("pool"), state)[0].at("reason") == evil);
  CHECK(status.at("users").contains(evil));
  CHECK(status.at("faults").contains(evil));
  CHECK(devices[0].at("name") == evil);
  CHECK(history_json(lines)[0].at("reason") == evil);
}

}  // namespace
}  // namespace estrain::pool
