#include "core/run/launch/launcher/parts/audits.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>

#include "core/run/launch/launcher/parts/go_back.h"
#include "tests/core/run/launch/launcher/parts/sample_run.h"
#include "tests/error_of.h"

namespace estrain::launch {
namespace {

const Error kFailure(Fault::corrupt, "what failed");

spec::JobSpec audited(bool redo) {
  spec::JobSpec spec;
  spec.audit = {.every = 5, .redo = redo};
  spec.recovery.retries = 2;
  return spec;
}

struct AuditedRun : SampleRun {
  Audits audits{run->view()};
  explicit AuditedRun(bool redo = true) : SampleRun(audited(redo)) { train(100); }

  void save(std::initializer_list<int64_t> steps) {
    std::filesystem::create_directories(run->journal.directory.checkpoints());
    for (const int64_t step : steps) replace_bytes(file_of(step), "a checkpoint");
  }
  std::string file_of(int64_t step) const {
    return fmt::format("{}/step-{:09}.h5", run->journal.directory.checkpoints(), step);
  }
  // The arguments of the launch that goes on; none: the run does not go on by itself, for the reason in `words`.
  std::vector<std::string> new_launch() {
    try {
      words = audits.go_back(kFailure);
    } catch (const GoBack& back) {
      return back.arguments;
    }
    return {};
  }
  static std::string devices_in(const std::vector<std::string>& arguments) {
    const auto at = std::ranges::find(arguments, "--devices");
    return at == arguments.end() ? "" : *(at + 1);
  }
  // The worker's audit found something wrong, and it is lost by that.
  faults::Diagnosis lose(size_t worker, const std::string& cause, int64_t vouched) {
    const decisions::Member& member = run->job.workers.at(worker);
    audits.note_found(member.id, Step(vouched));
    faults::Diagnosis diagnosis;
    diagnosis.cause = cause;
    diagnosis.retry = true;
    Json details = {{"worker", member.id.value}, {"device", member.device.text()}, {"step", vouched + 1}};
    audits.weigh(member, diagnosis, details);
    CHECK(details.value("vouched_step", -1) == vouched);
    return diagnosis;
  }
  std::string words;
};

TEST_CASE("without a finding there is no way back") {
  AuditedRun sample;
  sample.save({0, 10});
  CHECK(sample.new_launch().empty());
  CHECK(sample.words.empty());
  CHECK(sample.logged("gone_back").empty());
}

TEST_CASE(
    "after damage in memory the run continues from before it on the same devices; later checkpoints are set aside") {
  AuditedRun sample;
  sample.save({0, 10, 20});
  sample.audits.note_damaged_state(Step(20));
  const std::vector<std::string> arguments = sample.new_launch();
  CHECK(std::ranges::find(arguments, "--resume") != arguments.end());
  CHECK(AuditedRun::devices_in(arguments) == "cpu,cpu:avx2");
  CHECK(std::filesystem::exists(sample.file_of(10)));
  CHECK_FALSE(std::filesystem::exists(sample.file_of(20)));
  CHECK(std::filesystem::exists(sample.file_of(20) + ".unvouched"));
  const std::vector<Json> logged = sample.logged("gone_back");
  REQUIRE(logged.size() == 1);
  CHECK(logged[0]["from"] == 10);
  CHECK(logged[0]["set_aside"] == Json::array({20}));
  CHECK(logged[0]["cause"] == "damaged_state");
}

TEST_CASE("a device that computes wrongly is left out, the only one is not") {
  AuditedRun two;
  two.save({0, 10});
  const faults::Diagnosis diagnosis = two.lose(1, "wrong_results", 12);
  CHECK_FALSE(diagnosis.retry);
  CHECK(diagnosis.exit_code == exit_code(Fault::interrupted));
  CHECK(AuditedRun::devices_in(two.new_launch()) == "cpu");
  CHECK(two.audits.status().wrong_devices.size() == 1);

  AuditedRun one;
  one.run->job.workers.pop_back();
  one.save({0});
  one.lose(0, "wrong_results", 12);
  CHECK(AuditedRun::devices_in(one.new_launch()) == "cpu");
}

TEST_CASE("wrong results take a run back only if it asks for that, damage always does") {
  AuditedRun sample(false);
  sample.save({0, 10});
  CHECK(sample.lose(1, "wrong_results", 12).retry);
  CHECK(sample.new_launch().empty());
  CHECK(sample.words.empty());
  CHECK_FALSE(sample.lose(1, "damaged_state", 12).retry);
  CHECK(sample.new_launch().empty());  // audit.redo is off: the user goes on
  CHECK(sample.words.find("resume with `estrain train --resume --run " + sample.folder.path()) != std::string::npos);
}

TEST_CASE("a worker without a finding is weighed as it was diagnosed") {
  AuditedRun sample;
  faults::Diagnosis diagnosis;
  diagnosis.cause = "damaged_state";
  diagnosis.retry = true;
  Json details = Json::object();
  sample.audits.weigh(sample.run->job.workers[0], diagnosis, details);
  CHECK(diagnosis.retry);
  CHECK(details.empty());
}

TEST_CASE("no checkpoint that audits vouch for: all stay, and the run ends") {
  AuditedRun sample;
  sample.save({20});
  sample.audits.note_damaged_state(Step(20));
  CHECK(sample.new_launch().empty());
  CHECK(sample.words.find("start again in another run directory") != std::string::npos);
  CHECK(std::filesystem::exists(sample.file_of(20)));
  CHECK(sample.logged("gone_back").empty());
}

TEST_CASE("a run goes back to a checkpoint as often as it retries, then the user decides") {
  AuditedRun sample;
  sample.save({0});
  for (int times = 0; times < 2; ++times) {
    sample.audits.note_damaged_state(Step(1));
    CHECK_FALSE(sample.new_launch().empty());
  }
  sample.audits.note_damaged_state(Step(1));
  CHECK(sample.new_launch().empty());
  CHECK(sample.words.find("resume with") != std::string::npos);
}

TEST_CASE("a job over several hosts does not go on by itself") {
  AuditedRun sample;
  sample.run->job.workers[1].device.host = "nodeB";
  sample.save({0});
  sample.audits.note_damaged_state(Step(1));
  CHECK(sample.new_launch().empty());
  CHECK(sample.words.find("resume with") != std::string::npos);
}

TEST_CASE("the price: one mini-batch of each host in an audited step; blind where no worker has another of its kind") {
  AuditedRun sample;
  sample.run->spec.job.ests = 3;
  CHECK(sample.audits.status().share == doctest::Approx(1.0 / 15));
  CHECK(sample.audits.status().blind.value());  // cpu and cpu:avx2
  sample.run->job.workers[1].device.kind = "cpu";
  CHECK_FALSE(sample.audits.status().blind.value());
  sample.run->job.workers[1].device.host = "nodeB";
  CHECK(sample.audits.status().share == doctest::Approx(2.0 / 15));
  CHECK(sample.audits.status().blind.value());
}

TEST_CASE("an audit is asked for only while the job trains") {
  SampleRun early;
  CHECK(error_of([&] { Audits(early.run->view()).ask(); }).fault() == Fault::usage);
  AuditedRun sample;
  sample.run->job.phase = decisions::RunPhase::recovering;
  CHECK(error_of([&] { sample.audits.ask(); }).fault() == Fault::usage);
  sample.run->memory->audits().take_request(Step(1));
  CHECK_FALSE(sample.run->memory->audits().is_asked_for(Step(1)));
}

}  // namespace
}  // namespace estrain::launch
