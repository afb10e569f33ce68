#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <string_view>

#include "core/base/files/files.h"
#include "core/pool/daemon/job_commands.h"
#include "tests/core/pool/daemon/resting_pool.h"

namespace estrain::pool {
namespace {

// This test program, run as `estrain check SPEC …`, prints the text of the spec, and fails if the text asks for a
// failure. "GPU_GB" in the text stands for the value of --gpu-memory, or 0.
[[gnu::constructor]] void act_as_check(int argc, char** argv, char**) {
  if (argc < 3 || std::string_view(argv[1]) != "check") return;
  std::string answer = bytes_of(argv[2]);
  std::string gigabytes = "0";
  for (int i = 3; i + 1 < argc; ++i)
    if (std::string_view(argv[i]) == "--gpu-memory") gigabytes = argv[i + 1];
  if (const size_t place = answer.find("GPU_GB"); place != answer.npos) answer.replace(place, 6, gigabytes);
  std::puts(answer.c_str());
  std::fflush(stdout);
  ::_exit(answer.find("error") == answer.npos ? 0 : 2);
}

struct Checking : RestingPool {
  // `bytes`: what a check may take. `type`: of the jobs' devices.
  explicit Checking(const std::string& answer, int64_t jobs = 1, double bytes = 0, const std::string& type = "")
      : RestingPool(with_jobs(jobs, bytes, type)) {
    for (int64_t id = 1; id <= jobs; ++id) {
      make_folders(hosts.directory.job(id));
      replace_bytes(hosts.directory.spec(id), answer);
    }
  }
  static dispatch::State with_jobs(int64_t jobs, double bytes, const std::string& type) {
    dispatch::State state = state_with_job(Phase::checking, {"cpu"});
    state.jobs[1].request.type = type;
    state.jobs[1].memory.checked.worker = bytes;
    for (int64_t id = 2; id <= jobs; ++id) {
      state.jobs[id] = state.jobs[1];
      state.jobs[id].id = state.last_job = id;
    }
    return state;
  }
  Checks checks{dispatcher, hosts.directory};
};

TEST_CASE("a job that a check finds nothing against waits for devices, with what the check has measured") {
  Checking at(R"({"checks": [], "seconds": {"torch": 0.5, "portable": 4}, "total_steps": 120,)"
              R"( "work": {"model.name": "lenet", "data.batch": "8"}, "memory_needs": {"fixed": 3000, "worker": 2000},)"
              R"( "mini_batch_seconds": {"cpu:avx2": 0.25}, "size": {"gradient_bytes": 4000}})");
  at.checks.carry_out({1});
  at.checks.on_ended(1);
  CHECK(at.job().phase == Phase::waiting);
  CHECK(at.job().request.total_steps == 120);
  CHECK(at.job().speeds.expected() == 0.5);
  CHECK(at.job().speeds.mini_batch("cpu:avx2") == 0.25);
  CHECK(at.job().gradient_bytes == 4000);
  CHECK(at.job().work == R"({"model.name":"lenet","data.batch":"8"})");
  CHECK(at.job().memory.program == R"({"model.name":"lenet"})");
  CHECK(at.job().memory.needs == dispatch::NeededMemory{3000, 2000});
  CHECK(at.checks.processes().empty());
}

TEST_CASE("a job that a check finds errors in has failed, with all errors and no warnings as its reason") {
  const std::string errors = R"({"check": "data", "outcome": "error", "seen": "no file"}, )"
                             R"({"check": "devices", "outcome": "error", "seen": "no GPU"}, )";
  Checking at("{\"checks\": [" + errors + R"({"check": "memory", "outcome": "warning", "seen": "little"}]})");
  at.checks.carry_out({1});
  at.checks.on_ended(1);
  CHECK(at.job().phase == Phase::failed);
  CHECK(at.job().reason == "check: data: no file; devices: no GPU");
}

TEST_CASE("a job that lacks memory now, and nothing else, waits for memory where its needs are known") {
  const std::string lack = R"({"checks": [{"check": "memory", "outcome": "error", "seen": "little is left"})";
  Checking known(lack + R"(], "memory_needs": {"fixed": 3000, "worker": 2000}})"), unknown(lack + "]}"),
      other(lack + R"(, {"check": "data", "outcome": "error", "seen": "no file"}], "memory_needs": {"fixed": 1}})");
  for (Checking* at : {&known, &unknown, &other}) {
    at->checks.carry_out({1});
    at->checks.on_ended(1);
  }
  CHECK(known.job().phase == Phase::waiting);
  CHECK(known.job().memory.needs.fixed == 3000);
  CHECK(unknown.job().phase == Phase::failed);
  CHECK(unknown.job().reason == "check: memory: little is left");
  CHECK(other.job().phase == Phase::failed);
  CHECK(other.job().reason == "check: data: no file");
}

TEST_CASE("where the pool knows its GPUs' memory, a check foretells a job's need of it, and no lack is an error") {
  const std::string lack = R"({"checks": [{"check": "GPU memory", "outcome": "error", "seen": "a GPU has 74.5 GiB"}], )"
                           R"("memory_needs": {"fixed": 3000, "worker": 2000, "gpus": [9000, 0, 5000]}, )"
                           R"("size": {"gradient_bytes": GPU_GB}})";
  const std::string fine = R"({"checks": [], "size": {"gradient_bytes": GPU_GB}})";
  Checking known(lack), unknown(lack), on_gpus(fine, 1, 0, "cuda"), on_cpus(fine, 1, 0, "cpu:avx2");
  for (Checking* at : {&known, &unknown, &on_gpus, &on_cpus}) {
    at->dispatcher.tell(dispatch::DevicesAdded{{"cuda:0", "cuda:1"}});
    const std::map<std::string, double> gpus = {{"cuda:0", 16e9}, {"cuda:1", 80e9}, {"cuda:2", 90e9}};
    if (at != &unknown) at->dispatcher.tell(dispatch::MemoryKnown{"", 0, gpus});
    at->checks.carry_out({1});
    at->checks.on_ended(1);
  }
  CHECK(known.job().phase == Phase::waiting);
  CHECK(known.job().memory.gpus == std::vector<double>{9000, 0, 5000});
  CHECK(unknown.job().phase == Phase::failed);
  CHECK(unknown.job().reason == "check: GPU memory: a GPU has 74.5 GiB");
  CHECK(known.job().gradient_bytes == 80);
  CHECK(on_gpus.job().gradient_bytes == 80);
  CHECK(on_cpus.job().gradient_bytes == 0);
}

TEST_CASE("a check that says nothing and fails names its end and its log") {
  Checking at("error");
  at.checks.carry_out({1});
  at.checks.on_ended(1);
  CHECK(at.job().reason == "check: exit status 2, see " + at.hosts.directory.check_log(1));
}

TEST_CASE("a job says what its check waits for now: memory, with present figures, or the checks before it") {
  constexpr double kGiB = 1 << 30;
  Checking at("{}", 3, 3 * kGiB);
  const auto reason = [&] { return at.dispatcher.state().jobs.at(3).reason; };
  const auto know_memory = [&](double gib) {
    at.dispatcher.tell(dispatch::MemoryKnown{"", gib * kGiB});
    at.checks.start();
  };
  know_memory(4);
  for (const dispatch::JobId id : {1, 2, 3}) at.checks.carry_out({id});
  CHECK(at.checks.processes().size() == 1);
  CHECK(reason().find("1.0 GiB of 4.0 GiB are left") != std::string::npos);
  know_memory(5);
  CHECK(reason().find("2.0 GiB of 5.0 GiB are left") != std::string::npos);
  know_memory(6);
  CHECK(at.checks.processes().size() == dispatch::kChecksAtOnce);
  CHECK(reason() == "waits to be checked");
}

TEST_CASE("checks that cannot be started are passed over, and the next one is started at once") {
  Checking at("{}", 5);
  at.checks.carry_out({1});
  at.checks.carry_out({2});
  for (const dispatch::JobId id : {3, 4}) std::filesystem::remove_all(at.hosts.directory.job(id));
  for (const dispatch::JobId id : {3, 4, 5}) at.checks.carry_out({id});
  at.checks.on_ended(1);
  for (const dispatch::JobId id : {3, 4}) CHECK(at.dispatcher.state().jobs.at(id).phase == Phase::failed);
  CHECK(at.checks.processes().contains(5));
  at.checks.on_ended(2);
  at.checks.on_ended(5);
}

TEST_CASE("few checks are at work at once, and a job that was cancelled meanwhile is passed over") {
  Checking at("{}", 4);
  for (int64_t id = 1; id <= 4; ++id) at.checks.carry_out({id});
  CHECK(at.checks.processes().size() == dispatch::kChecksAtOnce);
  at.dispatcher.tell(dispatch::CancelAsked{3});
  at.checks.on_ended(1);
  CHECK(at.checks.processes().size() == dispatch::kChecksAtOnce);
  CHECK(at.checks.processes().contains(4));
  at.checks.on_ended(2);
  at.checks.on_ended(4);
  CHECK(at.checks.processes().empty());
  CHECK(at.dispatcher.state().jobs.at(3).phase == Phase::cancelled);
}

}  // namespace
}  // namespace estrain::pool
