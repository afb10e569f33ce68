// `estrain plan` measures and stores unknown speeds, and prints plans that `--devices` accepts.

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "core/base/files/files.h"
#include "job.h"
#include "job_specs.h"
#include "run_files.h"
#include "setting.h"

namespace estrain::testing {
namespace {

namespace fs = std::filesystem;

// A job and its own database, which commands use during the object's lifetime.
class Planned {
 public:
  explicit Planned(const std::string& spec_text) : spec_(folder_.write("job.toml", spec_text)) {}

  std::string database() const { return folder_ / "cache/profiles.json"; }
  const std::string& spec() const { return spec_; }
  std::string operator/(const std::string& name) const { return folder_ / name; }

  Ended plan(Words more) const {
    more.insert(more.begin(), {"plan", spec_, "--seconds", "0.3"});
    return estrain(more);
  }
  // The JSON, and the preceding stderr.
  Json plan_json(Words more) const {
    more.emplace_back("--json");
    const Ended ended = plan(more);
    INFO(ended.shown());
    REQUIRE(ended.code == 0);
    return parse_json(ended.text.substr(ended.text.find('{')), "plan --json");
  }

 private:
  ScratchFolder folder_;
  std::string spec_;
  const Setting seen_{"ESTRAIN_PROFILES", database()};
};

const Json& best(const Json& report) {
  for (const Json& plan : report.at("plans"))
    if (plan.at("best").get<bool>()) return plan;
  FAIL("no plan is the best: " << report.dump());
  return report;
}

TEST_CASE("a job is measured once; the plans stand in the order of their steps and can be run as they are printed") {
  const Planned job(mlp_job());
  const std::string runs = job / "runs";
  make_folders(runs);
  const Ended first = [&] {
    const Setting temporary("TMPDIR", runs);
    return job.plan({"--devices", "2"});
  }();
  INFO(first.shown());
  REQUIRE(first.code == 0);
  CHECK(first.says("measuring cpu=1\n"));
  CHECK(first.says("measuring cpu=2,cpu=2\n"));
  CHECK(first.says("measuring cpu=3,cpu=3\n"));
  CHECK(first.says("best: --devices "));
  CHECK(first.says("profiles: " + job.database()));
  for (const auto& left : fs::directory_iterator(runs))
    CHECK_FALSE(left.path().filename().string().starts_with("estrain-profile-"));
  const std::string kept = read_file(job.database());

  const Json again = job.plan_json({"--devices", "2"});
  CHECK(read_file(job.database()) == kept);  // looked up, not measured
  CHECK(again.at("profiles").at(0).at("measured_now") == false);
  CHECK(again.at("profiles").at(0).at("device") == "cpu");
  CHECK(again.at("profiles").at(0).at("seconds_per_mini_batch").get<double>() > 0);
  CHECK(again.at("profiles").at(0).at("age_seconds").get<int64_t>() < 600);
  CHECK(again.at("profiles").at(0).at("worker_bytes").get<int64_t>() > (1 << 20));
  double last = 0;
  for (const Json& plan : again.at("plans")) {
    CHECK(plan.at("step_seconds").get<double>() >= last);
    last = plan.at("step_seconds");
    int64_t ests = 0;
    for (const Json& number : plan.at("ests")) ests += number.get<int64_t>();
    CHECK(ests == 8);
    const double samples = plan.at("samples_per_second");
    CHECK(samples == doctest::Approx(4 * 8 / last));  // batches of 4
  }
  CHECK(again.at("plans").size() >= 2);  // one worker, two workers
  CHECK(&best(again) == &again.at("plans").at(0));
  const std::string devices = best(again).at("devices");
  CHECK(estrain({"train", job.spec(), "--run", job / "run", "--devices", devices, "--set", "train.steps=3"}).code == 0);
}

TEST_CASE("other numbers of intra-op threads are measured and compared; a run keeps its own") {
  const Planned job(mlp_job());
  const Json report = job.plan_json({"--threads", "1,2"});
  REQUIRE(report.at("threads").size() == 2);
  CHECK(report.at("threads").at(0).at("step_seconds") <= report.at("threads").at(1).at("step_seconds"));
  std::map<int64_t, Json> by_threads;
  for (const Json& each : report.at("threads")) by_threads[each.at("threads").get<int64_t>()] = each;
  CHECK(by_threads.at(1).at("step_seconds") == best(report).at("step_seconds"));
  const Json two = job.plan_json({"--profile", "never", "--set", "job.threads=2"});  // known by now
  CHECK(by_threads.at(2).at("devices") == best(two).at("devices"));
  CHECK(by_threads.at(2).at("step_seconds") == best(two).at("step_seconds"));
  const Ended text = job.plan({"--profile", "never", "--threads", "2"});
  CHECK(text.says("job.threads = 1: "));
  CHECK(text.says(" (current)"));
  CHECK(text.says("job.threads = 2: "));
  CHECK(job.plan({"--threads", "0"}).code == 2);
  CHECK(estrain({"plan", "--run", job / "none", "--threads", "2"}).code == 2);
}

TEST_CASE("what changes the work is measured anew; --profile always measures, never does not") {
  const Planned job(mlp_job());
  const Ended never = job.plan({"--profile", "never"});
  CHECK(never.code == 2);
  CHECK(never.says("cpu has not been measured for this job"));
  CHECK_FALSE(fs::exists(job.database()));
  REQUIRE(job.plan({}).code == 0);
  CHECK(job.plan({"--profile", "never"}).code == 0);
  CHECK(job.plan({"--profile", "never", "--set", "job.ests=6"}).code == 0);
  CHECK(job.plan({"--profile", "never", "--set", "data.batch=5"}).code == 2);
  const Ended other = job.plan({"--set", "data.batch=5"});
  CHECK(other.says("measuring cpu=1\n"));
  const Ended always = job.plan({"--profile", "always"});
  CHECK(always.says("measuring cpu=1\n"));
  CHECK(parse_json(read_file(job.database()), "database").at("profiles").size() == 2);
}

TEST_CASE("the plan of a list with ESTs is shown beside the best; kinds mix at D2 only") {
  const Planned job(mlp_job() + "[resources]\ndevices = \"cpu=7,cpu:sse=1\"\n");
  const Ended refused = job.plan({});
  INFO(refused.shown());
  CHECK(refused.code == 2);
  CHECK(refused.says("below D2"));
  const Json mixed = job.plan_json({"--set", "job.determinism=D2"});
  CHECK(mixed.at("profiles").size() == 2);
  const auto given =
      std::ranges::find_if(mixed.at("plans"), [](const Json& plan) { return plan.at("given").get<bool>(); });
  REQUIRE(given != mixed.at("plans").end());
  CHECK(given->at("devices") == "cpu=7,cpu:sse=1");
  CHECK(given->at("kinds") == Json({"cpu", "cpu:sse"}));
  CHECK(best(mixed).at("step_seconds") <= given->at("step_seconds"));
  // Available kinds without ESTs: at D1 the best of one kind.
  const Json one_kind = job.plan_json({"--devices", "cpu,cpu:sse"});
  for (const Json& plan : one_kind.at("plans")) {
    const Json& kinds = plan.at("kinds");
    CHECK(std::ranges::all_of(kinds, [&](const Json& kind) { return kind == kinds.at(0); }));
  }
}

// Sets every profile of the database to this speed, with an exchange of zero seconds.
void pretend(const std::string& database, const std::map<std::string, double>& seconds_per_mini_batch) {
  Json document = parse_json(read_file(database), database);
  for (Json& profile : document.at("profiles")) {
    for (Json& sample : profile.at("mini_batch"))
      sample["seconds"] = seconds_per_mini_batch.at(profile.at("work").at("device"));
    for (Json& sample : profile.at("exchange")) sample["seconds"] = 0;
  }
  write_file_atomically(database, document.dump());
}

TEST_CASE("an offer is weighed: what each number of its devices would bring") {
  const Planned job(mlp_job());
  const Words offer = {"--set", "job.determinism=D2", "--devices", "1", "--offer", "cpu,cpu:sse"};
  CHECK(job.plan_json(offer).at("profiles").size() == 2);
  pretend(job.database(), {{"cpu", 0.010}, {"cpu:sse", 0.020}});
  const Json report = job.plan_json(offer);
  REQUIRE(report.at("plans").size() == 1);  // for the device in use
  CHECK(report.at("plans").at(0).at("step_seconds").get<double>() == doctest::Approx(0.080));
  const Json& proposals = report.at("proposals");
  REQUIRE(proposals.size() >= 2);
  CHECK(proposals.at(0).at("change") == "+1 cpu");
  CHECK(proposals.at(0).at("devices") == "cpu=4*2");
  CHECK(proposals.at(0).at("speed_up").get<double>() == doctest::Approx(2));
  CHECK(proposals.at(0).at("speed_up_per_device").get<double>() == doctest::Approx(1));
  const auto slower =
      std::ranges::find_if(proposals, [](const Json& proposal) { return proposal.at("change") == "+1 cpu:sse"; });
  REQUIRE(slower != proposals.end());
  CHECK(slower->at("speed_up").get<double>() == doctest::Approx(8.0 / 6));
  const Ended text = job.plan(offer);
  INFO(text.shown());
  CHECK_FALSE(text.says("measuring"));
  CHECK(text.says("+1 cpu "));
  pretend(job.database(), {{"cpu", 0.010}, {"cpu:sse", 0.200}});
  const Ended useless = job.plan({"--set", "job.determinism=D2", "--devices", "1", "--offer", "cpu:sse"});
  INFO(useless.shown());
  CHECK(useless.says("the offered devices would not make the job faster"));
}

TEST_CASE("the devices of a running job are those at hand") {
  const Planned job(mlp_job());
  write_file_atomically(job / "long.toml", long_job());
  Job running(job / "long.toml", job / "run", {"--devices", "cpu=5,cpu=1"});
  running.reach(3);
  const Ended ended = estrain({"plan", "--run", job / "run", "--seconds", "0.3", "--json"});
  INFO(ended.shown());
  REQUIRE(ended.code == 0);
  const Json report = parse_json(ended.text.substr(ended.text.find('{')), "plan --json");
  CHECK(std::ranges::any_of(report.at("plans"), [](const Json& plan) {
    return plan.at("given").get<bool>() && plan.at("devices") == "cpu=5,cpu=1";
  }));
}

TEST_CASE("a database that is damaged, or cannot be written, is told, and the plan goes on") {
  const Planned job(mlp_job());
  make_folders(job / "cache");
  write_file_atomically(job.database(), "{\"format\": ");
  const Ended damaged = job.plan({});
  INFO(damaged.shown());
  CHECK(damaged.code == 0);
  CHECK(damaged.says("warning: " + job.database()));
  CHECK(damaged.says("renamed to " + job.database() + ".bad"));
  CHECK(damaged.says("best: --devices cpu=8"));
  CHECK(read_file(job.database() + ".bad") == "{\"format\": ");
  CHECK(parse_json(read_file(job.database()), "database").at("profiles").size() == 1);

  const std::string file = job / "file";
  write_file_atomically(file, "");
  const Setting other("ESTRAIN_PROFILES", file + "/profiles.json");
  const Ended nowhere = job.plan({});
  INFO(nowhere.shown());
  CHECK(nowhere.code == 0);
  CHECK(nowhere.says("the measurements are used, but not saved"));
  CHECK(nowhere.says("best: --devices cpu=8"));
}

TEST_CASE("bad input: exit code 2 and what to do") {
  const Planned job(mlp_job());
  struct Case {
    Words arguments;
    std::string says;
  };
  const Case cases[] = {
      {{"--devices", "gpu:7"}, "is no known device"},
      {{"--devices", "cpu=3"}, "hosts 3 ESTs, the job has 8"},
      {{"--offer", "cpu:mmx"}, "is no known device"},
      {{"--profile", "perhaps"}, "perhaps"},
      {{"--seconds", "0"}, "--seconds"},
      {{"--set", "data.batchh=4"}, "data.batch"},
      {{"--run", job / "nowhere"}, "no run there"},
  };
  for (const Case& bad : cases) {
    const Ended ended = job.plan(bad.arguments);
    INFO(ended.shown());
    CHECK(ended.code == 2);
    CHECK(ended.says(bad.says));
  }
  CHECK(estrain({"plan"}).code == 2);
  const std::string no_data = job / "no-data.toml";
  write_file_atomically(
      no_data, "[model]\nname = \"lenet\"\n[data]\nformat = \"idx\"\npath = \"nothing\"\n[train]\nsteps = 1\n");
  const Ended unread = estrain({"plan", no_data});
  INFO(unread.shown());
  CHECK(unread.code != 0);
  CHECK(unread.says(job / "nothing"));
  CHECK_FALSE(fs::exists(job.database()));
}

}  // namespace
}  // namespace estrain::testing
