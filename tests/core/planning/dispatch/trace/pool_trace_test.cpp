#include "core/planning/dispatch/trace/pool_trace.h"

#include <doctest/doctest.h>

#include <sstream>

#include "core/base/error.h"
#include "tests/error_of.h"

namespace estrain::dispatch {
namespace {

TEST_CASE("what is written of a pool is read as it was") {
  PoolTrace trace;
  trace.devices = {"cpu", "cuda:1"};
  trace.cores = 3;
  trace.policy = "srtf";
  trace.hosts = {{"nodeB", 8}};
  PastJob job;
  job.id = 7;
  job.submitted = 0.1;
  job.mini_batch = 0.2;
  job.work = R"({"model.name":"lenet"})";
  job.request.name = "n";
  job.request.user = "u";
  job.request.priority = -2;
  job.request.ests = 4;
  job.request.devices = 3;
  job.request.least = 1;
  job.request.most = 2;
  job.request.deadline = 9.5;
  job.request.type = "cuda";
  job.request.mixes_types = job.request.weighs_offers = job.request.one_host = true;
  job.request.total_steps = 50;
  job.check = 1, job.start = 2, job.grow = 3, job.shrink = 4, job.stop = 5, job.lost = 6, job.move = 7;
  job.seen = {{"cpu", 1, 2, 0.25}, {"cuda", 2, 2, 0.1}};
  job.took = {{"start", 1.5}, {"start", 2.5}, {"lost", 0}};
  job.paces = {{"cpu", 1, 2, 3, 4, 0.5, 0.75}, {"cuda", 2, 2.5, 4, 5.5, 0.25, 0}};
  job.request.early_stop = EarlyStop{.patience = 3, .min_delta = 0.5, .falls = false, .samples = 32};
  job.most_steps = 400;
  job.evaluations = {{10, 2.5, 0.1, 0.1}, {20, 1.5, 0.25, 0.25}};
  job.program = "lenet";
  PastJob plain;
  plain.id = 8;
  plain.request.total_steps = 1;
  plain.seen = {{"cpu", 1, 1, 1}};
  trace.jobs = {job, plain};
  trace.taken = {{1, 2, 0.5}, {3, 4, std::nullopt, "nodeB/cpu"}};
  trace.added = {{1.5, {"nodeB/cpu", "nodeB/cpu"}}};
  trace.removed = {{2.5, std::nullopt, {"cpu"}}, {3.5, 2, {"nodeB/cpu"}}};
  trace.lost = {{4.5, "nodeB"}};
  trace.away = {{5, 6}};
  PoolTrace copy;
  std::istringstream lines(trace.text());
  for (std::string line; std::getline(lines, line);) copy.add(Json::parse(line));
  CHECK(copy == trace);
  copy.add(Json::parse(R"({"something": "else"})"));
  CHECK(copy == trace);
}

TEST_CASE("each start, change and stop took as long as it did, and the mean where there were fewer") {
  PastJob job;
  job.start = 2, job.grow = 3, job.shrink = 4, job.stop = 5, job.lost = 6;
  job.took = {{"start", 1.5}, {"grow", 7}, {"start", 2.5}};
  CHECK(job.seconds_of("start", 0) == 1.5);
  CHECK(job.seconds_of("start", 1) == 2.5);
  CHECK(job.seconds_of("start", 2) == 2);
  CHECK(job.seconds_of("grow", 0) == 7);
  CHECK(job.seconds_of("grow", 1) == 3);
  CHECK(job.seconds_of("shrink", 0) == 4);
  CHECK(job.seconds_of("stop", 0) == 5);
  CHECK(job.seconds_of("lost", 0) == 6);
  CHECK(job.seconds_of("move", 0) == 2);  // none was seen
  job.move = 1;
  CHECK(job.seconds_of("move", 0) == 1);
}

TEST_CASE("a host whose cores are not told has as many as it had devices at once") {
  PoolTrace trace;
  trace.cores = 3;
  trace.devices = {"cpu", "nodeB/cpu", "nodeB/cpu"};
  trace.added = {{1, {"nodeB/cpu"}}, {2, {"nodeC/cpu", "nodeC/cpu"}}};
  CHECK(trace.cores_of("") == 3);
  CHECK(trace.cores_of("nodeB") == 2);
  CHECK(trace.cores_of("nodeC") == 2);
  CHECK(trace.cores_of("nodeD") == 1);
  trace.hosts = {{"nodeB", 16}};
  CHECK(trace.cores_of("nodeB") == 16);
}

TEST_CASE("cores of hosts that make no sense are refused") {
  for (const char* entry : {R"(["nodeB", 0])", R"(["nodeB"])", R"([1, 2])"}) {
    INFO(entry);
    PoolTrace trace;
    const Json pool = {{"devices", {"cpu"}}, {"cores", 1}, {"hosts", Json::array({Json::parse(entry)})}};
    const Error error = error_of([&] { trace.add({{"pool", pool}}); });
    CHECK(error.fault() == Fault::spec);
    CHECK(error.message() == "\"hosts\" wants [name, cores]");
  }
}

// A line of a job as another program would write it, with one field replaced.
Json line_with(const std::string& key, const Json& value) {
  Json line = Json::parse(
      R"({"job": 1, "name": "n", "user": "u", "ests": 4, "devices": 2, "least": 0, "most": 2, "type": "cpu", "steps": 50,
          "submit_s": 1, "mini_batch_s": 0.2, "check_s": 1, "start_s": 2, "grow_s": 3, "shrink_s": 4, "stop_s": 5,
          "lost_s": 6, "seen": [["cpu", 1, 2, 0.25]]})");
  line[key] = value;
  return line;
}

TEST_CASE("the names of a job's fields are the format's; texts and truths may be absent") {
  PoolTrace trace;
  trace.add(line_with("weighs_offers", true));
  const PastJob& job = trace.jobs.at(0);
  CHECK(job.request.ests == 4);
  CHECK(job.request.total_steps == 50);
  CHECK(job.request.weighs_offers);
  CHECK_FALSE(job.request.mixes_types);
  CHECK_FALSE(job.request.deadline);
  CHECK(std::vector{job.submitted, job.check, job.start, job.grow, job.shrink, job.stop, job.lost} ==
        std::vector<double>{1, 1, 2, 3, 4, 5, 6});
  CHECK(job.mini_batch == 0.2);
  CHECK(job.seen == std::vector<PastJob::PastSpeed>{{"cpu", 1, 2, 0.25}});
}

TEST_CASE("what a job cannot have is refused by name") {
  const auto refusal = [](const std::string& key, const Json& value) {
    PoolTrace trace;
    const Error error = error_of([&] { trace.add(line_with(key, value)); });
    CHECK(error.fault() == Fault::spec);
    return error.message();
  };
  CHECK(refusal("ests", 0) == "\"ests\" wants a whole number from 1");
  CHECK(refusal("least", -1) == "\"least\" wants a whole number from 0");
  CHECK(refusal("steps", "many") == "\"steps\" wants a whole number from 1");
  CHECK(refusal("start_s", -0.5) == "\"start_s\" wants a number from 0");
  CHECK(refusal("lost_s", Json()) == "\"lost_s\" wants a number from 0");
  CHECK(refusal("seen", Json::array()) == "job 1: no steps were seen");
  for (const char* entry : {R"(["cpu", 1, 2, 0])", R"(["cpu", 0, 2, 1])", R"(["cpu", 1, 0, 1])", R"([1, 1, 2, 1])",
                            R"(["cpu", 1, 2])", "7"}) {
    INFO(entry);
    CHECK(refusal("seen", Json::array({Json::parse(entry)})).starts_with("\"seen\" wants"));
  }
  for (const char* entry :
       {R"(["cpu", 1, 2, 4, 3, 1, 0])", R"(["cpu", 1, 2, null, 3, 1, 0])", R"(["cpu", 1, 2, 3, 4, 1])",
        R"(["cpu", 1, 2, 3, 4, 0, 0])", R"(["cpu", 1, 2, 3, 4, 1, -1])", R"([1, 1, 2, 3, 4, 1, 0])",
        R"(["cpu", 0, 2, 3, 4, 1, 0])", R"(["cpu", 1, 0.5, 3, 4, 1, 0])"}) {
    INFO(entry);
    CHECK(refusal("paces", Json::array({Json::parse(entry)})).starts_with("\"paces\" wants"));
  }
  for (const char* entry : {"[0, 0, 1, 8]", "[2, -1, 1, 8]", "[2, 0, 1, 0]", "[2, 0, 1]", "7"})
    CHECK(refusal("early_stop", Json::parse(entry)).starts_with("\"early_stop\" wants"));
  for (const char* entry : {"[0, 1, 0, 1]", "[5, null, 0, 1]", "[5, 1, 0]", "7"})
    CHECK(refusal("evaluations", Json::array({Json::parse(entry)})).starts_with("\"evaluations\" wants"));
}

TEST_CASE("a combination that was not measured is reckoned from the nearest that was") {
  PastJob job;
  job.request.ests = 8;
  job.seen = {{"cpu", 2, 2, 1}, {"cpu", 4, 4, 3}, {"cuda", 1, 1, 0.5}};
  CHECK(job.step_seconds("cpu", 2, 2, 4) == 1);
  CHECK(job.step_seconds("cpu", 1, 1, 4) == 2);  // 8 ESTs on a worker instead of 4
  CHECK(job.step_seconds("cpu", 8, 8, 4) == 3);  // one instead of 2, and half a core instead of one
  CHECK(job.step_seconds("cpu", 4, 8, 4) == 6);  // half a core
  CHECK(job.step_seconds("cuda", 2, 2, 4) == 0.25);
}

TEST_CASE("a step takes as long as it did at that moment, where the job had as many devices near it") {
  PastJob job;
  job.request.ests = 4;
  job.seen = {{"cpu", 2, 2, 1.5}};
  job.paces = {{"cpu", 2, 2, 10, 20, 1, 0}, {"cpu", 3, 3, 20, 21, 9, 0}, {"cpu", 2, 2, 21, 30, 2, 0}};
  const PastJob::Where where = {"cpu", 2, 2, 4};
  CHECK(job.step_seconds_at(10, where) == 1);
  CHECK(job.step_seconds_at(20.4, where) == 1);
  CHECK(job.step_seconds_at(20.6, where) == 2);
  CHECK(job.step_seconds_at(32, where) == 2);
  CHECK(job.step_seconds_at(32.1, where) == 1.5);
  CHECK(job.step_seconds_at(7.9, where) == 1.5);
  CHECK(job.step_seconds_at(15, {"cuda", 2, 2, 4}) == 1.5);
  CHECK(job.step_seconds_at(15, {"cpu", 4, 2, 4}) == 0.75);
}

TEST_CASE("a pace is that of the devices then in use; with more of them in use, jobs have less of the cores") {
  PastJob job;
  job.request.ests = 4;
  job.seen = {{"cpu", 2, 2, 9}};
  job.paces = {{"cpu", 2, 2.5, 0, 10, 1, 0}};
  CHECK(job.step_seconds_at(5, {"cpu", 2, 3, 4}) == 1);  // each worker has a core still
  CHECK(job.step_seconds_at(5, {"cpu", 2, 5, 2}) == 2);  // it had 2/2.5 of a core
  CHECK(job.step_seconds_at(5, {"cpu", 2, 2, 2}) == 0.8);
}

TEST_CASE("where a pace ends and another begins, the moment belongs to the latter") {
  PastJob job;
  job.paces = {{"cpu", 2, 2, 0, 10, 1, 0}, {"cpu", 2, 2, 10, 11, 2, 0}};
  CHECK(job.pace_at(9.9, "cpu", 2)->step_seconds == 1);
  CHECK(job.pace_at(10, "cpu", 2)->step_seconds == 2);
  CHECK(job.pace_at(10, "cpu", 1) == nullptr);
}

// Four workers on two cores take as long as three: the cores have the same mini-batches to do.
TEST_CASE("where workers share cores, all of a job's mini-batches count, not those of the worker with most of them") {
  PastJob job;
  job.request.ests = 4;
  job.seen = {{"cpu", 4, 4, 1}};
  CHECK(job.step_seconds("cpu", 3, 3, 2) == 1);
  CHECK(job.step_seconds("cpu", 2, 2, 2) == 1);
  CHECK(job.step_seconds("cpu", 1, 1, 2) == 2);
  CHECK(job.step_seconds("cpu", 2, 4, 2) == 2);  // one core
  CHECK(job.step_seconds("cpu", 3, 3, 4) == 2);  // a core each: two mini-batches one after another, instead of one
}

}  // namespace
}  // namespace estrain::dispatch
