#include "core/planning/simulate/replay.h"

#include <doctest/doctest.h>

#include "tests/core/planning/simulate/small_worlds.h"
#include "tests/error_of.h"

namespace estrain::simulate {
namespace {

using dispatch::PastJob;
using dispatch::PoolTrace;

// Two ESTs; a step takes 1 s on one device and 0.5 s on two. Other fields of a job's line may be replaced.
Json job_line(int64_t id, double submitted, const Json& other = Json::object()) {
  Json line = Json::parse(R"({"devices": 2, "ests": 2, "least": 0, "most": 2, "steps": 100, "type": "cpu",
    "mini_batch_s": 0.5, "check_s": 1, "start_s": 3, "grow_s": 0, "shrink_s": 0, "stop_s": 0, "lost_s": 0,
    "seen": [["cpu", 1, 1, 1.0], ["cpu", 2, 2, 0.5]]})");
  line["job"] = id;
  line["submit_s"] = submitted;
  line.update(other);
  return line;
}

PoolTrace trace_with(const std::vector<Json>& lines, int64_t cores = 2) {
  const ScratchFolder folder;
  std::string text = R"({"pool": {"devices": ["cpu", "cpu"], "cores": )" + std::to_string(cores) + "}}\n";
  for (const Json& line : lines) text += line.dump() + "\n";
  return read_pool_trace(folder.write("t.jsonl", text));
}

std::map<std::string, double> replayed(const std::vector<Json>& lines, const std::string& policy, int64_t cores = 2) {
  return jcts(replay(trace_with(lines, cores), {.policy = policy, .seed = 1, .round = 1000, .lost = {}}));
}

// Within 0.2 s: some of what the dispatcher does it does when it looks at the clock next.
doctest::Approx within_ticks(double seconds) { return doctest::Approx(seconds).epsilon(0.2 / (1 + seconds)); }

TEST_CASE("jobs are checked, start and train as long as was measured, and wait as the policy says") {
  const auto times = replayed({job_line(1, 0), job_line(2, 1.5, {{"devices", 1}, {"steps", 10}})}, "fifo");
  CHECK(times.at("1") == within_ticks(1 + 3 + 50));
  CHECK(times.at("2") == within_ticks(1 + 3 + 50 + 3 + 10 - 1.5));
}

TEST_CASE("a job that others displace stops, and starts again where it was") {
  const auto times =
      replayed({job_line(1, 0, {{"stop_s", 2}}), job_line(2, 9, {{"steps", 10}, {"check_s", 0}})}, "srtf");
  CHECK(times.at("2") == within_ticks(2 + 3 + 5));
  CHECK(times.at("1") ==
        within_ticks(4 + 5 + 2 + 3 + 5 + 3 + 45));  // ten steps before it was told, none while it stopped
}

// A sweep: jobs of at most 1,000 steps that an early stop ends after 20 (and a long job without one, in front).
std::vector<Json> sweep(bool tells_evaluations) {
  std::vector<Json> lines = {job_line(1, 0, {{"devices", 1}, {"most", 1}, {"ests", 1}, {"steps", 20}, {"check_s", 0}}),
                             job_line(2, 0, {{"devices", 1}, {"most", 1}, {"ests", 1}, {"steps", 20}, {"check_s", 0}}),
                             job_line(3, 25, {{"steps", 200}, {"check_s", 0}}),
                             job_line(4, 30, {{"steps", 20}, {"check_s", 0}})};
  for (const size_t i : {0, 1, 3}) {
    Json& line = lines[i];
    line["program"] = "lenet";
    line["most_steps"] = 1000;
    if (!tells_evaluations) continue;
    line["early_stop"] = {2, 0.0, 1, 8.0};
    for (const int step : {5, 10, 15, 20})
      line["evaluations"].push_back({step, 2 - std::min(step, 10) / 20.0, 0.0, 2 - std::min(step, 10) / 20.0});
  }
  return lines;
}

TEST_CASE("a job that an early stop ended ends there; jobs like it are expected to end there if evaluations tell it") {
  const auto learnt = replayed(sweep(true), "srtf"), blind = replayed(sweep(false), "srtf");
  for (const auto& times : {learnt, blind}) CHECK(times.at("1") == within_ticks(3 + 20));
  CHECK(learnt.at("4") == within_ticks(3 + 10));
  CHECK(learnt.at("3") > 100 + 13);
  const SimulationResult result =
      replay(trace_with(sweep(true)), {.policy = "srtf", .seed = 1, .round = 1000, .lost = {}});
  REQUIRE(result.end_errors.size() == 3);
  CHECK(result.end_errors[0] > 10);  // nothing was known of the first two
  CHECK(result.end_errors[2] < 0.2);
  CHECK(to_json(result).at("end_error_half_way") == result.end_errors[1]);
  CHECK(blind.at("4") > 100);  // behind the job of 200 steps
}

TEST_CASE("a growth takes its time, during which the job trains, and what it costs stands still") {
  const Json grows = {{"devices", 1}, {"grow_s", 4}, {"lost_s", 2}};
  PoolTrace trace = trace_with({job_line(1, 0, grows)});
  const ReplayOptions options{.policy = "easyscale-homo", .seed = 1, .round = 10, .lost = {}};
  // One device when it is admitted at 1 s, two from the round at 11 s.
  CHECK(jcts(replay(trace, options)).at("1") == within_ticks(11 + 4 + 2 + (100 - 11) * 0.5));
  CHECK(replay(trace, options).charge == 2);
  ReplayOptions costly = options;
  costly.lost = 12;
  CHECK(jcts(replay(trace, costly)).at("1") == within_ticks(11 + 4 + 12 + (100 - 11) * 0.5));
}

// One device when it is admitted at 1 s, two from the round at 11 s.
TEST_CASE("at the end of a round it is decided after the looks at all jobs, at the moment that they took") {
  const ReplayOptions options{.policy = "easyscale-homo", .seed = 1, .round = 10, .lost = {}};
  const auto second_decision = [&](double look) {
    const Json paces = {{"cpu", 1, 1, 4.0, 10.125, 1.0, 1.0}, {"cpu", 1, 1, 10.125, look, 1.0, 1.0}};
    return replay(trace_with({job_line(1, 0, {{"devices", 1}, {"paces", paces}})}), options).decisions.at(1).at;
  };
  const double due = second_decision(10.5);  // no look is known then
  CHECK(due == within_ticks(11));
  CHECK(second_decision(due + 0.25) == due + 0.25);
  CHECK(second_decision(due + 0.0625) == due + 0.0625);
  CHECK(second_decision(due + 0.5) == due);
}

TEST_CASE("each start and growth takes its own time, where the trace has them") {
  Json grows = {{"devices", 1}, {"grow_s", 4}, {"lost_s", 2}};
  grows["took"] = Json::parse(R"([["start", 5], ["grow", 1], ["lost", 3]])");
  const PoolTrace trace = trace_with({job_line(1, 0, grows)});
  const ReplayOptions options{.policy = "easyscale-homo", .seed = 1, .round = 10, .lost = {}};
  // One device when it is admitted at 1 s, from 6 s on; two from the round at 11 s.
  CHECK(jcts(replay(trace, options)).at("1") == within_ticks(11 + 1 + 3 + (100 - 6) * 0.5));
  Json stops = {{"stop_s", 2}};
  stops["took"] = Json::parse(R"([["start", 2], ["start", 6], ["stop", 1]])");
  const auto times = replayed({job_line(1, 0, stops), job_line(2, 9, {{"steps", 10}, {"check_s", 0}})}, "srtf");
  CHECK(times.at("2") == within_ticks(1 + 3 + 5));
  CHECK(times.at("1") == within_ticks(3 + 6 + 1 + 3 + 5 + 6 + 44));
}

TEST_CASE("a check at work slows jobs as a device in use does") {
  const Json one = {
      {"devices", 1}, {"most", 1}, {"check_s", 0}, {"start_s", 0}, {"seen", {{"cpu", 1, 1, 1.0}, {"cpu", 1, 2, 3.0}}}};
  Json late = one;
  late["check_s"] = 30;
  CHECK(replayed({job_line(1, 0, one), job_line(2, 50, late)}, "fifo").at("1") == within_ticks(50 + 30 + 120));
}

TEST_CASE("steps take as long as they did while so many of the pool's devices were in use") {
  const Json one = {{"devices", 1}, {"most", 1}, {"check_s", 0}, {"start_s", 0}, {"seen", {{"cpu", 1, 1, 1.0}}}};
  Json seen = one;
  seen["seen"].push_back({"cpu", 1, 2, 3.0});
  CHECK(replayed({job_line(1, 0, one), job_line(2, 0, one)}, "fifo").at("2") == within_ticks(100));
  CHECK(replayed({job_line(1, 0, one), job_line(2, 0, one)}, "fifo", 1).at("2") ==
        within_ticks(200));  // one core for both
  CHECK(replayed({job_line(1, 0, seen), job_line(2, 50, seen)}, "fifo").at("1") == within_ticks(50 + 150));
}

TEST_CASE("devices that were taken are away for as long: jobs shrink, to none if need be, and get them back") {
  const auto jct = [&](std::vector<Json> lines) {
    lines.insert(lines.begin(), job_line(1, 0, {{"check_s", 0}, {"start_s", 0}}));
    return replayed(lines, "fifo").at("1");
  };
  const Json one = {{"taken_s", 10}, {"within_s", 2}, {"lent_s", 30}};
  CHECK(jct({}) == within_ticks(50));
  CHECK(jct({one}) == within_ticks(10 + 20 + 30));
  CHECK(jct({one, one}) == within_ticks(10 + 20 + 40));
}

// A pool of two hosts: one device of the daemon's, one of nodeB's.
PoolTrace trace_of_hosts(const std::vector<Json>& lines, const Json& devices = {"cpu", "nodeB/cpu"}) {
  const ScratchFolder folder;
  std::string text = Json{{"pool", {{"devices", devices}, {"cores", 2}, {"hosts", {{"nodeB", 2}}}}}}.dump() + "\n";
  for (const Json& line : lines) text += line.dump() + "\n";
  return read_pool_trace(folder.write("t.jsonl", text));
}

SimulationResult replayed_on_hosts(const std::vector<Json>& lines, const Json& devices = {"cpu", "nodeB/cpu"}) {
  return replay(trace_of_hosts(lines, devices), {.policy = "fifo", .seed = 1, .round = 1000, .lost = {}});
}

const Json kAtOnce = {{"check_s", 0}, {"start_s", 0}};

TEST_CASE("a job is spread over hosts, unless it cannot be; decisions name the hosts' devices") {
  const SimulationResult spread = replayed_on_hosts({job_line(1, 0, kAtOnce)});
  CHECK(jcts(spread).at("1") == within_ticks(50));
  REQUIRE(spread.decisions.size() == 1);
  CHECK(spread.decisions[0].names == std::vector<std::string>{"cpu", "nodeB/cpu"});
  Json alone = kAtOnce;
  alone["one_host"] = true;
  const SimulationResult kept = replayed_on_hosts({job_line(1, 0, alone)});
  CHECK(jcts(kept).at("1") == within_ticks(100));
  CHECK(kept.decisions.at(0).names.size() == 1);
}

TEST_CASE("devices in use on another host do not slow a job") {
  Json one = {{"devices", 1}, {"most", 1}, {"seen", {{"cpu", 1, 1, 1.0}, {"cpu", 1, 2, 3.0}}}};
  one.update(kAtOnce);
  CHECK(jcts(replayed_on_hosts({job_line(1, 0, one), job_line(2, 0, one)})).at("1") == within_ticks(100));
  CHECK(jcts(replayed_on_hosts({job_line(1, 0, one), job_line(2, 0, one)}, {"nodeB/cpu", "nodeB/cpu"})).at("1") ==
        within_ticks(300));
}

TEST_CASE("a job waits for the host that brings the pool's first devices, and goes on with those that are left") {
  const std::vector<Json> lines = {job_line(1, 0, kAtOnce),
                                   {{"added_s", 10}, {"devices", {"nodeB/cpu", "nodeB/cpu"}}},
                                   {{"added_s", 20}, {"devices", {"nodeC/cpu", "nodeC/cpu"}}},
                                   {{"removed_s", 30}, {"within_s", nullptr}, {"devices", {"nodeB/cpu", "nodeB/cpu"}}}};
  const SimulationResult result = replayed_on_hosts(lines, Json::array());
  CHECK(jcts(result).at("1") == within_ticks(10 + 50));
  CHECK(result.devices == 4);
  REQUIRE(result.decisions.size() >= 2);
  CHECK(result.decisions.front().names == std::vector<std::string>{"nodeB/cpu", "nodeB/cpu"});
  CHECK(result.decisions.back().names == std::vector<std::string>{"nodeC/cpu", "nodeC/cpu"});
  // With nodeB alone: it goes on when that is back.
  const std::vector<Json> alone = {lines[0], lines[1], lines[3], {{"added_s", 40}, {"devices", {"nodeB/cpu"}}}};
  CHECK(jcts(replayed_on_hosts(alone, Json::array())).at("1") == within_ticks(40 + 60));
}

TEST_CASE("a device that was taken by its name is away, not another one") {
  Json one = {{"devices", 1}, {"most", 1}};
  one.update(kAtOnce);
  const Json taken = {{"taken_s", 10}, {"within_s", 2}, {"lent_s", 1000}, {"device", "nodeB/cpu"}};
  const SimulationResult result = replayed_on_hosts({job_line(1, 0, one), job_line(2, 20, one), taken});
  CHECK(jcts(result).at("1") == within_ticks(100));       // on the daemon's device
  CHECK(jcts(result).at("2") == within_ticks(80 + 100));  // which is the only one
}

TEST_CASE("a job that was on a lost host alone goes on from where it was when the host is back") {
  const SimulationResult result = replayed_on_hosts({job_line(1, 0, kAtOnce),
                                                     {{"host_lost_s", 20}, {"host", "nodeB"}},
                                                     {{"added_s", 30}, {"devices", {"nodeB/cpu", "nodeB/cpu"}}}},
                                                    {"nodeB/cpu", "nodeB/cpu"});
  CHECK(jcts(result).at("1") == within_ticks(30 + 30));
}

TEST_CASE("where the launcher's host is lost, another host of the job continues; where another is, the job shrinks") {
  const Json lost = {{"host_lost_s", 20}, {"host", "nodeB"}};
  Json job = kAtOnce;
  job["move_s"] = 7;
  // nodeB leads: it comes first where both have as many.
  CHECK(jcts(replayed_on_hosts({job_line(1, 0, job), lost}, {"nodeB/cpu", "nodeC/cpu"})).at("1") ==
        within_ticks(20 + 7 + 60));
  CHECK(jcts(replayed_on_hosts({job_line(1, 0, job), lost}, {"cpu", "nodeB/cpu"})).at("1") == within_ticks(20 + 60));
}

TEST_CASE("a host that is lost while no daemon serves the pool takes its jobs with it when one comes") {
  const SimulationResult result = replayed_on_hosts({job_line(1, 0, kAtOnce),
                                                     {{"away_s", 10}, {"served_s", 20}},
                                                     {{"host_lost_s", 15}, {"host", "nodeB"}},
                                                     {{"added_s", 25}, {"devices", {"nodeB/cpu", "nodeB/cpu"}}}},
                                                    {"nodeB/cpu", "nodeB/cpu"});
  CHECK(jcts(result).at("1") == within_ticks(25 + 30));
}

TEST_CASE("while no daemon serves the pool jobs go on, and nobody decides") {
  const Json away = {{"away_s", 10}, {"served_s", 80}};
  const Json quick = {{"check_s", 0}, {"start_s", 0}};
  CHECK(replayed({job_line(1, 0, quick), job_line(2, 1, quick), away}, "fifo").at("1") == within_ticks(80));
  CHECK(replayed({job_line(1, 0, quick), job_line(2, 1, quick), away}, "fifo").at("2") == within_ticks(79 + 50));
  CHECK(replayed({job_line(1, 0, quick), {{"away_s", 10}, {"served_s", 20}}}, "fifo").at("1") == within_ticks(50));
}

TEST_CASE("a change on its way when the daemon dies goes on, and is no new decision") {
  const Json grows = {{"devices", 1}, {"grow_s", 4}, {"lost_s", 2}};
  const ReplayOptions options{.policy = "easyscale-homo", .seed = 1, .round = 10, .lost = {}};
  const auto replayed_with = [&](double away, double served) {
    return replay(trace_with({job_line(1, 0, grows), {{"away_s", away}, {"served_s", served}}}), options);
  };
  // One device when it is admitted at 1 s, two from the round at 11 s.
  for (const double served : {12.5, 15.0, 20.0}) {
    CAPTURE(served);
    const SimulationResult result = replayed_with(12, served);
    REQUIRE(result.decisions.size() == 2);
    CHECK(result.charge == 2);
    if (served <= 15) CHECK(jcts(result).at("1") == within_ticks(11 + 4 + 2 + (100 - 11) * 0.5));
  }
}

TEST_CASE("a job that stops when the daemon dies stops, and starts again when another one serves") {
  const auto times = replayed({job_line(1, 0, {{"stop_s", 2}}),
                               job_line(2, 9, {{"steps", 10}, {"check_s", 0}}),
                               {{"away_s", 10}, {"served_s", 14}}},
                              "srtf");
  CHECK(times.at("2") == within_ticks(14 - 9 + 3 + 5));
  CHECK(times.at("1") == within_ticks(14 + 3 + 5 + 3 + 45));  // ten steps until it was told
}

TEST_CASE("decisions are kept in order, and stretches where asked for") {
  ReplayOptions options{.policy = "fifo", .seed = 1, .round = 1000, .lost = {}, .keep_stretches = true};
  const SimulationResult result = replay(trace_with({job_line(7, 0), job_line(9, 2)}), options);
  REQUIRE(result.decisions.size() == 2);
  CHECK(result.decisions[0].job == "7");
  CHECK(result.decisions[1].job == "9");
  CHECK(result.decisions[1].devices == 2);
  REQUIRE(result.stretches.size() == 2);
  CHECK(result.stretches[1].job == 1);
  CHECK(result.stretches[0].devices == 2);
  CHECK(result.stretches[0].to - result.stretches[0].from == within_ticks(53));
}

TEST_CASE("what was not measured is reckoned from the nearest that was") {
  PastJob job;
  job.request.ests = 4;
  job.seen = {{"cpu", 2, 4, 1.0}, {"cpu", 4, 4, 0.8}};
  CHECK(job.step_seconds("cpu", 2, 4, 4) == 1.0);
  CHECK(job.step_seconds("cpu", 3, 4, 4) == 0.8 * 2);  // the worker with two ESTs decides
  CHECK(job.step_seconds("cpu", 1, 4, 4) == 2.0);
  CHECK(job.step_seconds("cpu", 2, 2, 4) == 1.0);
  CHECK(job.step_seconds("cpu", 2, 2, 2) == 0.5);  // two of four devices left each half a core
}

TEST_CASE("a trace that cannot be is refused with words, and so is an unknown policy") {
  const auto fault = [](const std::vector<Json>& lines) { return error_of([&] { trace_with(lines); }).message(); };
  CHECK(fault({}).find("no jobs") != std::string::npos);
  CHECK(fault({job_line(1, -1)}).find("\"submit_s\" wants a number from 0") != std::string::npos);
  CHECK(fault({job_line(1, 0, {{"ests", 0}})}).find("\"ests\" wants a whole number from 1") != std::string::npos);
  CHECK(fault({job_line(1, 0, {{"seen", Json::array()}})}).find("no steps were seen") != std::string::npos);
  CHECK(fault({job_line(1, 0, {{"seen", {{"cpu", 1, 1, 0}}}})}).find("\"seen\" wants") != std::string::npos);
  CHECK(error_of([&] { replayed({job_line(1, 0)}, "polux"); }).fault() == Fault::usage);
  CHECK(error_of([&] { replayed({job_line(1, 0, {{"type", "cuda"}})}, "fifo"); }).fault() == Fault::infeasible);
  CHECK_FALSE(is_pool_trace("none"));
}

}  // namespace
}  // namespace estrain::simulate
