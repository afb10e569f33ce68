#include "core/run/launch/control/run_status.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "core/base/clock.h"
#include "core/base/json/json_lines.h"
#include "core/job/spec/parsing/parse.h"
#include "core/run/launch/control/control_socket.h"
#include "core/state/run_directory/run_directory.h"
#include "tests/bytes_read.h"
#include "tests/core/run/launch/control/serving.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace estrain::launch {
namespace {

constexpr const char* kSpec =
    "[job]\nname = \"ended\"\nests = 2\n[model]\nname = \"mlp\"\n[data]\nformat = \"synthetic\"\n[train]\nsteps = "
    "200000\n";

std::string step_line(int64_t step) {
  const Json line = {{"step", step}, {"epoch", step / 100}, {"loss", 0.5}, {"lr", 0.25}};
  return line.dump() + "\n";
}

std::string evaluation_line(int64_t step, double accuracy) {
  const Json line = {{"step", step}, {"eval", {{"loss", 0.75}, {"accuracy", accuracy}, {"predictions", 64}}}};
  return line.dump() + "\n";
}

// A run without processes.
struct EndedRun {
  ScratchFolder folder;

  explicit EndedRun(const std::string& metrics) {
    run_directory::RunDirectory(folder.path()).write_spec(spec::parse_text(kSpec, "job.toml"));
    replace_bytes(folder / "metrics.jsonl", metrics);
  }
  Json status() const { return status_as_json(run_status(folder.path())); }
};

TEST_CASE("a run that ended shows its last step and its last evaluation, whatever stands behind them") {
  const EndedRun run(step_line(98) + evaluation_line(98, 0.75) + step_line(99) + step_line(100) + "nonsense\n{}\n[]\n" +
                     "{\"step\":101,");
  const Json status = run.status();
  CHECK(status.at("state") == "not running");
  CHECK(status.at("step") == 100);
  CHECK(status.at("epoch") == 1);
  CHECK(status.at("loss") == 0.5);
  CHECK(status.at("lr") == 0.25);
  CHECK(status.at("test_accuracy") == 0.75);
}

TEST_CASE(
    "how the last launch ended is found behind any number of other events, and without reading them all as JSON") {
  const EndedRun run(step_line(100));
  const std::string events = run.folder / "events.jsonl";
  std::string lines = "{\"event\":\"start\"}\n{\"event\":\"failed\",\"error\":\"no room\"}\n";
  replace_bytes(events, lines);
  CHECK(run.status().at("error") == "no room");
  lines += "{\"event\":\"fault\",\"cause\":\"wrong_results\",\"device\":\"cpu\",\"worker\":1,\"step\":7}\n";
  lines += "{\"event\":\"start\"}\n{\"event\":\"stopped\"}\n";
  for (int i = 0; i < 200'000; ++i)
    lines +=
        "{\"time\":\"2026-01-01T00:00:00Z\",\"event\":\"refused_connection\",\"host\":\"h1\",\"from\":\"10.0.0.9:1\"}"
        "\n";
  replace_bytes(events, lines);
  const MonotonicTime begin = MonotonicClock::now();
  const Json status = run.status();
  const MonotonicTime told = MonotonicClock::now();
  for_each_object(events, [](const Json&) {});
  CHECK(told - begin < (MonotonicClock::now() - told) / 2);
  CHECK(status.at("state") == "stopped");
  CHECK_FALSE(status.contains("error"));  // of a launch before
  CHECK(status.at("audit").at("wrong_devices").size() == 1);
}

TEST_CASE("the text has the batch and the noise of gradients, and how much of a worker's time waits for data") {
  RunStatus status;
  status.workers = {{.id = 0,
                     .pid = 1,
                     .device = "cpu",
                     .ests = {},
                     .log = "",
                     .seconds_per_mini_batch = 0.02,
                     .seconds_waiting_for_data = 0.005,
                     .slow = std::nullopt},
                    {.id = 1,
                     .pid = 2,
                     .device = "cpu",
                     .ests = {},
                     .log = "",
                     .seconds_per_mini_batch = std::nullopt,
                     .seconds_waiting_for_data = std::nullopt,
                     .slow = SlowWorker{1.5, 7}}};
  status.batch = 48;
  status.lr_factor = 1.5;
  status.gradient_noise = {812.4, 900};
  const std::string text = format_status(status);
  CHECK(text.find("48 samples an EST, learning rates times 1.5\n") != std::string::npos);
  CHECK(text.find("812 samples, from 900 steps\n") != std::string::npos);
  CHECK(text.find("20               25.0 %\n") != std::string::npos);
  CHECK(text.find("-                -, slow: 1.5 times the usual since step 7\n") != std::string::npos);
}

TEST_CASE("a run that was never evaluated, and one without a step") {
  CHECK_FALSE(EndedRun(step_line(1) + step_line(2)).status().contains("test_accuracy"));
  CHECK(EndedRun(step_line(1) + step_line(2)).status().at("step") == 2);
  CHECK_FALSE(EndedRun("").status().contains("step"));
}

TEST_CASE("a run whose launcher is at work on another host") {
  const EndedRun run(step_line(1) + step_line(2));
  const run_directory::RunDirectory directory(run.folder.path());
  directory.log_event("start", {{"step", 0}});
  const run_directory::RunOwner owner{7, "far-away", "42"};
  replace_bytes(directory.lock_file(), owner.to_text());
  const Json status = run.status();
  CHECK(status.at("state") == "elsewhere");
  CHECK(status.at("host") == "far-away");
  CHECK(status.at("pid") == 7);
  CHECK(status.at("slurm_job") == "42");
  CHECK(status.at("step") == 2);
  CHECK(format_status(status_from_json(status))
            .find("  at work on       far-away, process 7, Slurm job 42; last sign of life 0 s ago\n") !=
        std::string::npos);
  const Error refused = error_of([&] { ask_launcher(run.folder.path(), decisions::StopRequest{}, 1000ms); });
  CHECK(refused.fault() == Fault::usage);
  CHECK(refused.message().ends_with(": the job is at work on another host (process 7 on far-away)"));
  CHECK(refused.advice() == "give the command there: srun --overlap --jobid=42 estrain …");
  replace_bytes(directory.lock_file(), "");
  CHECK(run.status().at("state") == "not running");
}

TEST_CASE("a launcher that ends while it is asked leaves what is on record") {
  const EndedRun run(step_line(100));
  std::thread launcher([server = ControlServer(run.folder.path())]() mutable {
    wait_for_request(server);
    const UniqueFd listener(::dup(server.listener()));  // a process that ends closes its sockets one by one
    { const ControlServer ends = std::move(server); }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  });
  CHECK(run.status().at("state") == "not running");
  launcher.join();
}

TEST_CASE("a folder's runs are found, what cannot be looked at among them") {
  const ScratchFolder folder;
  for (const char* name : {"b", "a"}) {
    const run_directory::RunDirectory run(folder / name);
    std::filesystem::create_directory(run.path());
    run.write_spec(spec::parse_text(kSpec, "job.toml"));
  }
  std::filesystem::create_directory(folder / "none");
  std::filesystem::create_symlink(folder / "loop", folder / "loop");
  CHECK(find_runs(folder.path()) == std::vector<std::string>{folder / "a", folder / "b", folder / "loop"});
  CHECK(find_runs(folder / "none").empty());
  CHECK(find_runs(folder / "nowhere").empty());
}

TEST_CASE("of a long run only the end is read") {
  std::string metrics;
  for (int64_t step = 1; step <= 100'000; ++step) metrics += step_line(step);
  const EndedRun run(metrics + evaluation_line(100'000, 0.5) + step_line(100'001));
  REQUIRE(std::filesystem::file_size(run.folder / "metrics.jsonl") > 4'000'000);
  const int64_t before = bytes_read();
  const Json status = run.status();
  CHECK(bytes_read() - before < 1'000'000);
  CHECK(status.at("step") == 100'001);
  CHECK(status.at("test_accuracy") == 0.5);
}

TEST_CASE("lines of any type are passed over, for the one before them") {
  std::string damaged;
  for (const char* line : {R"({"step":7,"loss":0.5,"lr":0.1})", R"({"step":"8","epoch":0,"loss":0.5,"lr":0.1})",
                           R"({"step":9,"epoch":0,"loss":"x","lr":0.1})", R"({"step":10,"epoch":0,"loss":[],"lr":{}})",
                           R"({"eval":5})", R"({"eval":{"accuracy":"x"}})", R"(["eval"])", R"({"eval":null,"loss":1})"})
    damaged += std::string(line) + "\n";
  const EndedRun run(step_line(6) + evaluation_line(6, 0.25) + damaged + std::string(100'000, '[') + "\n");
  replace_bytes(run.folder / "events.jsonl",
                "{\"event\":5}\n{\"event\":\"failed\",\"error\":[1]}\n{\"event\":{}}\n[[\n5\n");
  const Json status = run.status();
  CHECK(status.at("step") == 6);
  CHECK(status.at("test_accuracy") == 0.25);
  CHECK(status.at("state") == "failed");
  CHECK(status.at("error") == "");
  CHECK(format_status(status_from_json(status)).find("step             6") != std::string::npos);
}

TEST_CASE("an answer of any type is an error that says so") {
  for (const char* answer : {R"({"name":5})", R"({"name":"a","workers":"none"})", R"({"workers":[7]})", "[]"}) {
    const Error error = error_of([&] { status_from_json(parse_json(answer, "test")); });
    CHECK(error.fault() == Fault::peer);
    CHECK(error.message().starts_with("the launcher's answer makes no sense: "));
  }
}

TEST_CASE("a status is the same as JSON and back, what is null and what is left out included") {
  RunStatus status;
  status.name = "job";
  status.state = "training";
  status.step = 7;
  status.loss.emplace();
  status.lr = {0.25};
  status.last_checkpoint_step.emplace();
  AuditStatus& audit = status.audit.emplace();
  audit.every = 10;
  audit.wrong_devices = {{"cpu", 1, 5, std::nullopt}};
  WorkerStatus& worker = status.workers.emplace().emplace_back();
  worker.ests = {VirtualRank(2), VirtualRank(4)};
  worker.slow = {1.5, 3};
  const Json json = status_as_json(status);
  CHECK(json.at("loss").is_null());
  CHECK(json.at("lr") == 0.25);
  CHECK(json.at("last_checkpoint_step").is_null());
  CHECK_FALSE(json.contains("test_accuracy"));
  CHECK_FALSE(json.contains("held"));
  CHECK(json.at("workers").at(0).at("ests") == Json::array({2, 4}));
  CHECK(status_as_json(status_from_json(json)) == json);
}

}  // namespace
}  // namespace estrain::launch
