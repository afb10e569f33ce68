#include "core/inspect/report/charts/timeline.h"

#include <doctest/doctest.h>

#include <string>

namespace estrain::report {
namespace {

Json event(const std::string& time, const std::string& name, const Json& fields = Json::object()) {
  Json line = {{"time", "2031-05-04T" + time + "Z"}, {"event", name}};
  line.update(fields);
  return line;
}

Json stage(const std::string& time, int64_t number, int64_t step, const Json& devices, const Json& ranges) {
  return event(time, "stage", {{"stage", number}, {"step", step}, {"devices", devices}, {"ranges", ranges}});
}

TEST_CASE("launches lie behind each other, without the time between them") {
  TimelineReader reader;
  reader.add(event("10:00:00.000", "start", {{"step", 0}, {"devices", "cpu,cpu"}}));
  reader.add(stage("10:00:02.000", 0, 0, {"cpu", "cpu"}, {{0, 2}, {2, 4}}));
  reader.add(event("10:00:10.000", "stopped", {{"step", 80}, {"why", "asked to"}}));
  reader.add(event("12:00:00.000", "start", {{"step", 80}, {"devices", "cuda:0"}}));
  reader.add(stage("12:00:01.500", 0, 80, {"cuda:0"}, {{0, 4}}));
  reader.add(event("12:00:05.000", "finished", {{"step", 100}}));
  const Timeline line = reader.finish();
  CHECK(line.length == 15);
  CHECK(line.state == "finished");
  CHECK(line.ests == 4);
  CHECK(line.devices == std::vector<std::string>{"cpu", "cpu #2", "cuda:0"});
  REQUIRE(line.stages.size() == 2);
  CHECK(line.stages[0].from == 2);
  CHECK(line.stages[0].to == 10);
  CHECK(line.stages[1].from == 11.5);
  CHECK(line.stages[1].to == 15);
  REQUIRE(line.stages[0].blocks.size() == 2);
  CHECK(line.stages[0].blocks[1].ests == EstRange{VirtualRank(2), VirtualRank(4)});
  CHECK(line.stages[0].blocks[1].device == 1);
  REQUIRE(line.marks.size() == 4);
  CHECK(line.marks[2].kind == MarkKind::launch);
  CHECK(line.marks[2].at == 10);
  CHECK(line.marks[2].words == "on cuda:0");
}

TEST_CASE("what a launch records before its start does not make the pause before it running time") {
  TimelineReader reader;
  reader.add(event("10:00:00.000", "start"));
  reader.add(event("10:00:10.000", "stopped"));
  for (const char* name :
       {"allocation", "determinism", "spec_restored", "data_accepted", "checkpoint_skipped", "records_damaged"})
    reader.add(event("11:59:59.000", name));
  reader.add(event("12:00:00.000", "start"));
  reader.add(event("12:00:05.000", "finished"));
  CHECK(reader.finish().length == 15);
}

TEST_CASE("a launch without a last word ends with the last thing it recorded") {
  TimelineReader reader;
  reader.add(event("10:00:00.000", "start"));
  reader.add(stage("10:00:01.000", 0, 0, {"cpu"}, {{0, 1}}));
  reader.add(event("10:00:07.000", "checkpoint", {{"step", 5}, {"seconds", 0.25}}));
  reader.add(event("11:00:00.000", "start"));
  const Timeline line = reader.finish();
  CHECK(line.length == 7);
  CHECK(line.stages[0].to == 7);
  CHECK(line.state == "");
  CHECK(line.spent.checkpoints == 1);
  CHECK(line.spent.saving == 0.25);
}

TEST_CASE("faults, recoveries and resizes are told with who, what and why") {
  TimelineReader reader;
  reader.add(event("10:00:00.000", "start"));
  reader.add(event("10:00:04.000", "fault",
                   {{"worker", 1},
                    {"device", "cpu"},
                    {"ests", {2, 4}},
                    {"step", 30},
                    {"what", "ended by SIGKILL"},
                    {"cause", "killed"},
                    {"advice", "see dmesg"}}));
  reader.add(event("10:00:06.000", "recovered",
                   {{"step", 30}, {"worker", 1}, {"seconds_to_next_step", 2.25}, {"committed_steps_redone", 0}}));
  reader.add(event("10:00:08.000", "resize",
                   {{"step", 40},
                    {"from", "cpu,cpu"},
                    {"to", "cpu"},
                    {"ests", {4}},
                    {"why", "asked for"},
                    {"stood_still_seconds", 0.5}}));
  reader.add(event("10:00:09.000", "fault", {{"worker", "scribe"}, {"step", 44}, {"what", "hung"}}));
  const Timeline line = reader.finish();
  REQUIRE(line.marks.size() == 5);
  CHECK(line.marks[1].kind == MarkKind::fault);
  CHECK(line.marks[1].words == "worker 1 on cpu (ESTs 2 to 3): ended by SIGKILL; cause: killed; see dmesg");
  CHECK(line.marks[3].words == "cpu,cpu to cpu, ESTs 4; stood still 0.5 s: asked for");
  CHECK(line.marks[4].words == "scribe: hung");
  CHECK(line.spent.recovering == 2.25);
  CHECK(line.spent.standing == 0.5);
  REQUIRE(line.recoveries.size() == 2);
  CHECK(line.recoveries[0].from == 4);
  CHECK(line.recoveries[0].to == 6);
  CHECK(line.recoveries[1].to == 9);  // not recovered from
  CHECK(line.counts.at("fault") == 2);
}

TEST_CASE("what was measured of stages is added up") {
  TimelineReader reader;
  reader.add(event("10:00:00.000", "start"));
  reader.add(event("10:00:01.000", "first_step", {{"step", 1}, {"seconds", 0.75}}));
  for (int i = 0; i < 2; ++i)
    reader.add(event("10:00:09.000", "stage_speed",
                     {{"seconds", 4},
                      {"exchange_seconds", 0.5},
                      {"workers",
                       {{{"worker", 0},
                         {"device", "cpu"},
                         {"mini_batches", 10},
                         {"computing_seconds", 3},
                         {"seconds_waiting_for_data", 1}},
                        {{"worker", 1}, {"device", "cpu"}, {"mini_batches", 10}, {"computing_seconds", 2}}}}}));
  const Timeline line = reader.finish();
  CHECK(line.spent.starting == 0.75);
  CHECK(line.spent.stepping == 8);
  CHECK(line.spent.exchange == 1);
  CHECK(line.spent.computing == 5);
  CHECK(line.work.at("cpu").mini_batches == 40);
  CHECK(line.work.at("cpu").computing_seconds == 10);
  CHECK(line.work.at("cpu").reading_seconds == 2);
}

TEST_CASE(
    "a launch that took longer before its first event than after it does not make the parts more than the whole") {
  TimelineReader reader;
  for (const char* minute : {"10:00", "10:05"}) {
    const std::string at = minute;
    reader.add(event(at + ":00.000", "start"));
    reader.add(event(at + ":01.000", "first_step", {{"step", 1}, {"seconds", 2.5}}));
    reader.add(event(at + ":05.000", "stage_speed", {{"seconds", 4}}));
    reader.add(event(at + ":05.000", "stopped"));
  }
  const Timeline line = reader.finish();
  CHECK(line.spent.running == 10);
  CHECK(line.spent.starting == 2);
  CHECK(line.spent.starting + line.spent.stepping <= line.spent.running);
}

TEST_CASE("of thousands of events the first and the last ones stay") {
  TimelineReader reader;
  for (int i = 0; i < 3000; ++i) reader.add(event("10:00:00.000", "fault", {{"worker", i}, {"step", i}}));
  const Timeline line = reader.finish();
  CHECK(line.marks.size() == kMostMarks);
  CHECK(line.marks_left_out == 3000 - static_cast<int64_t>(kMostMarks));
  CHECK(line.marks.front().step == 0);
  CHECK(line.marks.back().step == 2999);
  CHECK(line.counts.at("fault") == 3000);
}

TEST_CASE("records that make no sense are passed over") {
  TimelineReader reader;
  for (const char* text : {"{}", R"({"event":7})", R"({"event":"stage","devices":"cpu","ranges":7})",
                           R"({"event":"stage","devices":["cpu"],"ranges":[[5,-3]]})",
                           R"({"event":"stage","devices":[1],"ranges":[[0,1e30]]})",
                           R"({"event":"fault","worker":[],"step":"x","time":7})",
                           R"({"event":"start","time":"never"})", R"({"event":"resize","stood_still_seconds":-1e300})",
                           R"({"event":"stage_speed","workers":[{"mini_batches":-5}]})"})
    reader.add(parse_json(text, "test"));
  const Timeline line = reader.finish();
  CHECK(line.length == 0);
  CHECK(line.spent.standing == 0);
  CHECK(line.ests == 0);
  CHECK(line.stages.size() == 3);
}

TEST_CASE("a clock that was put back does not turn time round") {
  TimelineReader reader;
  reader.add(event("10:00:00.000", "start"));
  reader.add(event("10:00:10.000", "decision"));
  reader.add(event("09:00:00.000", "decision"));
  reader.add(event("10:00:12.000", "decision"));
  CHECK(reader.finish().length == 12);
}

}  // namespace
}  // namespace estrain::report
