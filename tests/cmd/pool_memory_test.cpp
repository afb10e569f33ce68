// A pool whose host has little memory: jobs that overfill the host together run one after another.

#include <doctest/doctest.h>

#include <algorithm>

#include "at_length.h"
#include "command.h"
#include "job_specs.h"
#include "run_files.h"
#include "served_pool.h"
#include "tests/scratch_folder.h"

namespace estrain::testing {
namespace {

// A job on one CPU, with more parameters for a larger `hidden`.
std::string job_of(int64_t hidden, int64_t steps) {
  return fmt::format(R"([job]
name = "mlp{}"
seed = 17
ests = 1
[model]
name = "mlp"
hidden = [{}, {}]
classes = 10
[data]
format = "synthetic"
shape = [64]
samples = 300
batch = 4
[optimizer]
name = "adam"
lr = 0.001
[train]
steps = {}
eval_every = "never"
[resources]
devices = "cpu"
)",
                     hidden, hidden, hidden, steps);
}

double needs_of(const std::string& spec) {
  const Ended ended = estrain({"check", spec, "--json"});
  INFO(ended.shown());
  const Json needs = Json::parse(ended.text).at("memory_needs");
  const double fixed = needs.at("fixed").get<double>(), worker = needs.at("worker").get<double>();
  REQUIRE(fixed > 0);
  REQUIRE(worker > 0);
  return fixed + worker;
}

// Returns the most jobs of this name that have had devices at once.
int64_t most_at_once(const Pool& pool, const std::vector<int64_t>& jobs) {
  int64_t now = 0, most = 0;
  for (const Json& line : Json::parse(pool.ask("log", {"--json"}).text)) {
    if (std::ranges::find(jobs, line.at("job").get<int64_t>()) == jobs.end()) continue;
    const std::string what = line.at("what");
    if (what == "started") most = std::max(most, ++now);
    if (what == "done" || what == "stopped" || what == "faulted" || what == "failed") --now;
  }
  return most;
}

TEST_CASE("jobs that overfill the host together run one after another, and say that they wait for memory") {
  const ScratchFolder folder;
  const std::string large = folder.write("large.toml", job_of(1500, 60)),
                    small = folder.write("small.toml", job_of(16, 30));
  const double needs = needs_of(large), less = needs_of(small);
  REQUIRE(needs > less);
  const double memory = needs + 1.3 * less;  // peaks count a tenth more
  REQUIRE(memory < 1.9 * needs);
  Pool pool(folder / "pool",
            {"--devices", "cpu*3", "--policy", "fifo", "--round", "0.5", "--memory", fmt::format("{:.0f}", memory)});
  std::vector<int64_t> larges, all;
  for (int i = 0; i < 2; ++i) larges.push_back(pool.submit(large));
  all = larges;
  all.push_back(pool.submit(small));
  wait_until("a job to wait for memory", [&] { return pool.ask("status").says("waits for memory: it needs"); });
  for (const int64_t id : all) pool.wait_for(id, "done");
  CHECK(most_at_once(pool, larges) == 1);
  CHECK(most_at_once(pool, all) == 2);
  const Json status = Json::parse(pool.ask("status", {"--json"}).text);
  CHECK(status.at("memory").at(0).at("bytes") == std::nearbyint(memory));
  CHECK(pool.log().find("waits for memory: it needs") != std::string::npos);
}

TEST_CASE("a job whose check waits for memory says so, and is checked when there is memory") {
  const ScratchFolder folder;
  const std::string large = folder.write("large.toml", job_of(1500, 100'000)),
                    small = folder.write("small.toml", job_of(16, 10));
  const double memory = 1.2 * needs_of(large);
  Pool pool(folder / "pool",
            {"--devices", "cpu*2", "--policy", "fifo", "--round", "0.5", "--memory", fmt::format("{:.0f}", memory)});
  const int64_t first = pool.submit(large);
  pool.wait_for(first, "running");
  const int64_t second = pool.submit(small);
  const auto reason = [&] { return pool.job(second).at("reason").get<std::string>(); };
  wait_until("word that the check waits",
             [&] { return reason().starts_with("waits for memory to be checked: a check may take "); });
  CHECK(reason().ends_with(" are left on the daemon's host"));
  CHECK(pool.ask("cancel", {std::to_string(first)}).code == 0);
  pool.wait_for(second, "done");
}

}  // namespace
}  // namespace estrain::testing
