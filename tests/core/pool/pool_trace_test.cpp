#include "core/pool/pool_trace.h"

#include <doctest/doctest.h>

#include <sstream>

#include "core/base/json/json.h"

namespace estrain::pool {
namespace {

std::vector<Json> lines_of(const std::string& text) {
  std::vector<Json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(Json::parse(line));
  return lines;
}

dispatch::State two_jobs() {
  dispatch::State state;
  state.policy = "fifo";
  state.slots = {{1, "cpu"}, {2, "cpu"}};
  for (const dispatch::JobId id : {1, 2}) {
    dispatch::Job& job = state.jobs[id];
    job.id = id;
    job.request.total_steps = 50;
    job.phase = dispatch::Phase::done;
    job.submitted = 100 + static_cast<double>(id);
    job.speeds.saw({"cpu", 1, 2, 10, 5}, 120);
    job.lost = 3;
    job.starts = 3;
  }
  state.jobs[3].phase = dispatch::Phase::running;
  state.jobs[3].submitted = 104;
  return state;
}

TEST_CASE("a trace has the jobs that are done, with what took how long; a job without its own figure has the mean") {
  const std::vector<Line> history = {
      {101, 1, "submitted", 0, ""}, {103, 1, "admitted", 0, ""}, {103, 1, "started", 1, ""}, {107, 1, "trains", 1, ""},
      {110, 1, "grows", 2, ""},     {111, 1, "changed", 2, ""},  {112, 1, "grows", 2, ""},   {115, 1, "changed", 2, ""},
      {116, 2, "started", 1, ""},   {117, 2, "stops", 1, ""},    {119, 2, "stopped", 1, ""}};
  const std::vector<Json> lines = lines_of(trace_of(two_jobs(), history, 2));
  REQUIRE(lines.size() == 3);
  CHECK(lines[0] == Json::parse(R"({"pool": {"devices": ["cpu", "cpu"], "cores": 2, "policy": "fifo", "hosts": []}})"));
  const Json &first = lines[1], &second = lines[2];
  CHECK(first.at("submit_s") == 0);
  CHECK(second.at("submit_s") == 1);
  CHECK(first.at("check_s") == 2);
  CHECK(first.at("start_s") == 4);
  CHECK(first.at("grow_s") == 2.0);
  CHECK(second.at("start_s") == 4);  // it was stopped before it trained: its start tells nothing
  CHECK(second.at("stop_s") == 2);
  CHECK(first.at("stop_s") == 2);
  CHECK(first.at("shrink_s") == 0);
  CHECK(first.at("lost_s") == 1.5);
  CHECK(first.at("seen") == Json::parse(R"([["cpu", 1, 2, 0.5]])"));
  CHECK(first.at("paces") == Json::parse(R"([["cpu", 1, 2.0, 14.0, 19.0, 0.5, 0.0]])"));
}

TEST_CASE("a trace has each start, change and stop of a job; one that was cut short took the mean") {
  const std::vector<Line> history = {{101, 1, "started", 1, ""},
                                     {103, 1, "trains", 1, ""},
                                     {110, 1, "grows", 2, ""},
                                     {111, 1, "changed", 2, "it stood still for 0.250 s"},
                                     {112, 1, "grows", 2, ""},
                                     {113, 1, "stops", 2, ""},
                                     {114, 1, "stopped", 2, ""},
                                     {115, 1, "started", 2, ""},
                                     {119, 1, "trains", 2, ""},
                                     {120, 1, "grows", 3, ""},
                                     {123, 1, "changed", 3, "it stood still for 0.500 s"}};
  CHECK(lines_of(trace_of(two_jobs(), history, 2))[1].at("took") ==
        Json::parse(R"([["start", 2.0], ["start", 4.0], ["grow", 1.0], ["grow", 2.0], ["grow", 3.0], ["stop", 1.0],
                        ["lost", 0.25], ["lost", 0.5]])"));
}

TEST_CASE("what a job is at takes as long whatever is decided meanwhile, and whoever serves the pool") {
  const std::vector<Line> history = {{101, 1, "started", 1, ""}, {102, 1, "devices", 2, ""}, {103, 1, "found", 2, ""},
                                     {104, 1, "trains", 2, ""},  {110, 1, "grows", 2, ""},   {111, 1, "found", 2, ""},
                                     {113, 1, "devices", 1, ""}, {115, 1, "changed", 2, ""}, {116, 1, "shrinks", 1, ""},
                                     {117, 1, "stops", 0, ""},   {118, 1, "stopped", 0, ""}};
  CHECK(lines_of(trace_of(two_jobs(), history, 2))[1].at("took") ==
        Json::parse(R"([["start", 3.0], ["grow", 5.0], ["shrink", 0.0], ["stop", 1.0]])"));
}

TEST_CASE("a job that ended before it was looked at has the speed that was expected") {
  dispatch::State state = two_jobs();
  dispatch::Job& job = state.jobs[1];
  job.request.type = "cpu";
  job.request.ests = job.request.most = 4;
  job.request.devices = 2;
  job.speeds = {};
  job.speeds.expect(0.5);
  CHECK(lines_of(trace_of(state, {}, 2))[1].at("seen") == Json::parse(R"([["cpu", 2, 2, 1.0]])"));
}

TEST_CASE("a start lasts until the first step, also where a daemon finds later that the job trains") {
  const std::vector<Line> history = {{103, 1, "started", 1, ""},
                                     {107, 1, "trains", 1, "its first step began 1.500 s earlier"},
                                     {103, 2, "started", 1, ""},
                                     {107, 2, "trains", 1, "its first step has begun"}};
  const std::vector<Json> lines = lines_of(trace_of(two_jobs(), history, 2));
  CHECK(lines[1].at("start_s") == 2.5);
  CHECK(lines[1].at("took") == Json::parse(R"([["start", 2.5]])"));
  CHECK(lines[2].at("start_s") == 4);
}

TEST_CASE("of a job that an early stop ended, a trace has the steps it made, those it might have made, evaluations") {
  dispatch::State state = two_jobs();
  dispatch::Job& job = state.jobs[1];
  job.request.early_stop = dispatch::EarlyStop{.patience = 2, .min_delta = 0, .falls = true, .samples = 8};
  job.step = 30;
  job.memory.program = "lenet";
  job.evaluations.kept = {{10, 2, 0.5, 2}};
  const std::vector<Json> lines = lines_of(trace_of(state, {}, 2));
  CHECK(lines[1].at("steps") == 30);
  CHECK(lines[1].at("most_steps") == 50);
  CHECK(lines[1].at("program") == "lenet");
  CHECK(lines[1].at("evaluations") == Json::parse("[[10, 2.0, 0.5, 2.0]]"));
  CHECK(lines[1].at("early_stop") == Json::parse("[2, 0.0, 1, 8.0]"));
  CHECK(lines[2].at("steps") == 50);
  CHECK(lines[2].at("early_stop").is_null());
}

TEST_CASE("of a job whose batch was changed, a trace has steps and their times with the owner's batch") {
  dispatch::State state = two_jobs();
  dispatch::Job& job = state.jobs[1];
  job.request.batch = {{16, 1, 64}, 10};
  job.request.total_steps = 250;
  job.batch.own_steps = 500;
  job.batch.batch = 32;
  job.speeds = {};
  job.speeds.expect(0.5);
  const Json plain = lines_of(trace_of(state, {}, 2))[1];
  CHECK(plain.at("steps") == 500);
  CHECK(plain.at("mini_batch_s") == 0.25);
  job.speeds.saw({"cpu", 1, 2, 10.5, 21}, 141);
  CHECK(lines_of(trace_of(state, {}, 2))[1].at("seen") == Json::parse(R"([["cpu", 1, 2, 2.0]])"));
}

// 250 steps of 16 samples, then of 32: all 500 of the owner's steps would be 375.
TEST_CASE("of a job whose batch was changed before an early stop, a trace counts all steps with the owner's batch") {
  dispatch::State state = two_jobs();
  dispatch::Job& job = state.jobs[1];
  job.request.batch = {{16, 1, 64}, 10};
  job.request.total_steps = 375;
  job.request.early_stop = dispatch::EarlyStop{.patience = 2};
  job.batch.own_steps = 500;
  job.batch.batch = 32;
  job.step = 300;
  job.evaluations.kept = {{200, 2, 0.5, 2}, {275, 2, 0.5, 2}};
  const Json line = lines_of(trace_of(state, {}, 2))[1];
  CHECK(line.at("steps") == 350);
  CHECK(line.at("most_steps") == 500);
  CHECK(line.at("evaluations") == Json::parse("[[200, 2.0, 0.5, 2.0], [300, 2.0, 0.5, 2.0]]"));
  job.batch.own_steps = 0;  // not known
  CHECK(lines_of(trace_of(state, {}, 2))[1].at("steps") == 600);
}

TEST_CASE("a trace tells of devices that were taken, until they were lent again, and of times without a daemon") {
  const std::vector<Line> history = {{50, 0, "away", 0, ""},
                                     {60, 0, "served", 0, ""},
                                     {110, 0, "take", 2, "within 2 s", {"cpu", "cpu"}},
                                     {113, 0, "lend", 1, "", {"cpu"}},
                                     {115, 0, "lend", 1, "", {"cpu"}},
                                     {116, 0, "take", 1, "without haste", {"cpu"}},
                                     {117, 0, "lend", 1, "", {"cpu"}},
                                     {118, 0, "away", 0, ""},
                                     {121, 0, "served", 0, ""},
                                     {122, 0, "take", 1, "within 2 s", {"cpu"}}};
  const std::vector<Json> lines = lines_of(trace_of(two_jobs(), history, 2));
  REQUIRE(lines.size() == 7);
  CHECK(lines[3] == Json::parse(R"({"taken_s": 9.0, "within_s": 2.0, "lent_s": 12.0, "device": "cpu"})"));
  CHECK(lines[4] == Json::parse(R"({"taken_s": 9.0, "within_s": 2.0, "lent_s": 14.0, "device": "cpu"})"));
  CHECK(lines[5] == Json::parse(R"({"taken_s": 15.0, "within_s": null, "lent_s": 16.0, "device": "cpu"})"));
  CHECK(lines[6] == Json::parse(R"({"away_s": 17.0, "served_s": 20.0})"));
}

TEST_CASE("a trace names the device that was taken, also where another one of it is lent first") {
  const std::vector<Line> history = {{110, 0, "take", 2, "within 2 s", {"cpu", "nodeB/cpu"}},
                                     {113, 0, "lend", 1, "", {"nodeB/cpu"}},
                                     {115, 0, "lend", 1, "", {"cpu"}},
                                     {116, 0, "take", 1, "without haste", {"nodeB/cpu"}}};
  const std::vector<Json> lines = lines_of(trace_of(two_jobs(), history, 2));
  REQUIRE(lines.size() == 5);
  CHECK(lines[3] == Json::parse(R"({"taken_s": 9.0, "within_s": 2.0, "lent_s": 12.0, "device": "nodeB/cpu"})"));
  CHECK(lines[4] == Json::parse(R"({"taken_s": 9.0, "within_s": 2.0, "lent_s": 14.0, "device": "cpu"})"));
}

// What the pool has at the end: two devices of its own; nodeC's, one of which is on its way out; nodeB has come and
// gone, and was lost.
TEST_CASE("a trace has the devices of all hosts at the first submission, and those that came and went since") {
  dispatch::State state = two_jobs();
  state.slots = {{1, "cpu"},
                 {2, "cpu"},
                 {7, "nodeC/cpu"},
                 {8, "nodeC/cpu", dispatch::Slot::State::leaving, true},
                 {9, "nodeC/cpu", dispatch::Slot::State::away}};
  state.cores = {{"nodeB", 8}, {"nodeC", 4}};
  const std::vector<Line> history = {{50, 0, "add", 3, "", {"cpu", "cpu", "cpu"}},
                                     {60, 0, "remove", 1, "without haste", {"cpu"}},
                                     {70, 0, "add", 2, "", {"nodeB/cpu", "nodeB/cuda:1"}},
                                     {103, 0, "lost", 2, "host nodeB: silent", {"nodeB/cpu", "nodeB/cuda:1"}},
                                     {104, 0, "add", 3, "", {"nodeC/cpu", "nodeC/cpu", "nodeC/cpu"}},
                                     {105, 0, "remove", 1, "within 2 s", {"nodeC/cpu"}},
                                     {106, 0, "lost", 0, "host nodeD: silent"}};
  const std::vector<Json> lines = lines_of(trace_of(state, history, 2));
  REQUIRE(lines.size() == 6);
  CHECK(lines[0] == Json::parse(R"({"pool": {"devices": ["cpu", "cpu", "nodeB/cpu", "nodeB/cuda:1"], "cores": 2,
                                             "policy": "fifo", "hosts": [["nodeB", 8], ["nodeC", 4]]}})"));
  CHECK(lines[3] == Json::parse(R"({"added_s": 3.0, "devices": ["nodeC/cpu", "nodeC/cpu", "nodeC/cpu"]})"));
  CHECK(lines[4] == Json::parse(R"({"removed_s": 4.0, "within_s": 2.0, "devices": ["nodeC/cpu"]})"));
  CHECK(lines[5] == Json::parse(R"({"host_lost_s": 2.0, "host": "nodeB"})"));
}

TEST_CASE("a trace has how long a job was without a launcher until another of its hosts went on") {
  const std::vector<Line> history = {{101, 1, "started", 2, ""}, {103, 1, "trains", 2, ""}, {110, 1, "orphaned", 1, ""},
                                     {110, 1, "devices", 1, ""}, {114, 1, "moved", 1, ""},  {120, 1, "orphaned", 1, ""},
                                     {122, 1, "stopped", 1, ""}};
  const std::vector<Json> lines = lines_of(trace_of(two_jobs(), history, 2));
  CHECK(lines[1].at("move_s") == 4);
  CHECK(lines[1].at("took") == Json::parse(R"([["start", 2.0], ["move", 4.0], ["move", 4.0]])"));
  CHECK(lines[2].at("move_s") == 4);
  CHECK(lines_of(trace_of(two_jobs(), {}, 2))[1].at("move_s").is_null());
}

}  // namespace
}  // namespace estrain::pool
