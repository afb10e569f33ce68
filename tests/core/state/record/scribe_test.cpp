#include "core/state/record/scribe.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <future>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/clock.h"
#include "core/base/files/file_lock.h"
#include "core/base/files/files.h"
#include "core/base/files/unique_fd.h"
#include "core/state/checkpoint/directory.h"
#include "core/state/checkpoint/state/manifest.h"
#include "core/state/comm/job_memory.h"
#include "core/state/record/logs/metrics.h"
#include "tests/scratch_folder.h"

namespace estrain::record {
namespace {

// Returns the number of different signs of life seen, `most` at most; waits some seconds for them.
int count_beats(comm::JobMemory& memory, int most) {
  int beats = 0;
  for (int64_t last = 0, tries = 0; beats < most && tries < 4000; ++tries) {
    const int64_t beat = memory.clock().scribe_beat_ns();
    beats += std::exchange(last, beat) != beat;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return beats;
}

TEST_CASE("a scribe that waits for the first state says that it lives, again and again") {
  const UniqueFd fd = comm::JobMemory::create();
  comm::JobMemory memory(fd.get());
  auto [launcher, scribes] = comm::MessageSocket::pair();
  ScribeSetup setup;
  setup.memory = fd.get();
  setup.launcher = ScribesOwnChannel(std::move(scribes));
  auto scribe = std::async(std::launch::async, [&] { run_scribe(setup); });
  const int beats = count_beats(memory, 3);
  ScribeChannel(std::move(launcher)).send(FinishFiles{});
  scribe.get();
  CHECK(beats == 3);
}

std::string small_manifest(const checkpoint::StateLayout& layout) {
  checkpoint::Manifest manifest;
  manifest.layout = layout;
  manifest.digest_names = {"w"};
  manifest.batches.samples_per_est = 100;
  manifest.ests = 1;
  manifest.total_steps = 1000;
  manifest.parameter_count = 64;
  manifest.processor = "a processor";
  return manifest.to_json();
}

// A job whose steps are only reported, not computed, and its scribe process, whose files have a size limit: a full disk
// for the scribe alone.
class FakeJob {
 public:
  FakeJob() {
    REQUIRE(lock_file_at(lock_file(), lock_));
    checkpoint::StateLayout layout;
    layout.append(checkpoint::Role::parameter, "w", "", checkpoint::DType::f32, {64});
    comm::MemoryPlan plan;
    plan.manifest = small_manifest(layout);
    plan.state_bytes = layout.bytes;
    plan.gradient_bytes = 4096;
    plan.ests = 2;
    plan.parameters = plan.digests = plan.evaluation_samples = 1;
    plan.ring_records = comm::records_of_ring;
    memory_.lay_out(plan);
    memory_.set_ready();
    auto [ours, theirs] = comm::MessageSocket::pair();
    launcher_ = ScribeChannel(std::move(ours));
    scribe_ = ::fork();
    if (scribe_ == 0) be_scribe(std::move(theirs));
  }
  ~FakeJob() {
    if (!ended_) ::kill(scribe_, SIGKILL);
    if (!ended_) ::waitpid(scribe_, nullptr, 0);
  }
  FakeJob(const FakeJob&) = delete;

  const std::string& run() const { return folder_.path(); }
  std::string lock_file() const { return run() + "/lock"; }
  comm::JobMemory& memory() { return memory_; }
  ScribeChannel& launcher() { return launcher_; }

  // Each step takes a second. All updates are skipped if `left_out`.
  void train_until(int64_t last, bool left_out = false) {
    for (; step_.value < last; memory_.commit().commit(step_)) {
      const comm::RecordView record = memory_.ring().pending();
      if (left_out) record.head->left_out.where = comm::Nonfinite::Where::loss;
      record.head->kind = comm::RecordKind::step;
      record.head->step = ++step_;
      record.head->time_ns = nanoseconds(static_cast<double>(step_.value));
      REQUIRE(memory_.ring().publish());
    }
  }
  // The record of an evaluation of the last step.
  void evaluate() {
    const comm::RecordView record = memory_.ring().pending();
    record.head->kind = comm::RecordKind::evaluation;
    record.head->step = step_;
    REQUIRE(memory_.ring().publish());
  }
  // The scribe meets all records of `publish` at once.
  void at_once(const std::function<void()>& publish) const {
    REQUIRE(::kill(scribe_, SIGSTOP) == 0);
    REQUIRE(::waitpid(scribe_, nullptr, WUNTRACED) == scribe_);
    publish();
    REQUIRE(::kill(scribe_, SIGCONT) == 0);
  }
  // Hears reports until none comes for half a second, but no more than `most`. `patience`: with the first report.
  std::vector<ScribeReport> hear_until_quiet(std::chrono::milliseconds patience, size_t most) {
    std::vector<ScribeReport> heard;
    ScribeReport report;
    while (heard.size() < most &&
           launcher_.receive(&report, heard.empty() ? patience : 500ms) == comm::Received::message)
      heard.push_back(report);
    return heard;
  }
  void wait_for_records() {
    come([&] { return memory_.ring().waiting() == 0; });
  }
  void wait_for_copy() {
    come([&] { return !memory_.hold().held(); });
  }
  void limit_files(rlim_t bytes) const {
    rlimit limit{};
    REQUIRE(::prlimit(scribe_, RLIMIT_FSIZE, nullptr, &limit) == 0);
    limit.rlim_cur = bytes;
    REQUIRE(::prlimit(scribe_, RLIMIT_FSIZE, &limit, nullptr) == 0);
  }
  template <typename Report>
  Report wait_for() {
    ScribeReport report;
    do {
      REQUIRE(launcher_.receive(&report, 60s) == comm::Received::message);
    } while (!std::holds_alternative<Report>(report));
    return std::get<Report>(report);
  }
  void wait_until_it_waits() {
    come([&] { return text_if_readable("/proc/" + std::to_string(scribe_) + "/comm") == "waits for room\n"; });
  }
  bool lives() const { return ::waitpid(scribe_, nullptr, WNOHANG) == 0; }
  int exit_code() {
    int status = 0;
    REQUIRE(::waitpid(scribe_, &status, 0) == scribe_);
    ended_ = true;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  int64_t steps_recorded() const { return std::ssize(read_metrics(run() + "/metrics.jsonl").steps); }
  int64_t step_saved() const {
    const auto newest = checkpoint::CheckpointDirectory(run() + "/checkpoints").newest_valid();
    return newest.file ? newest.file->meta().step.value : -1;
  }

 private:
  [[noreturn]] void be_scribe(comm::MessageSocket socket) {
    launcher_.close();
    std::signal(SIGXFSZ, SIG_IGN);
    ScribeSetup setup;
    setup.run = run();
    setup.spec.job.name = "fake";
    setup.spec.job.ests = 2;
    setup.spec.model.name = "mlp";
    setup.spec.elastic.batch = spec::BatchMode::adaptive;
    setup.memory = fd_.get();
    setup.doorbell = ::eventfd(0, EFD_NONBLOCK);
    setup.lock = std::move(lock_);
    setup.launcher = ScribesOwnChannel(std::move(socket));
    try {
      run_scribe(setup);
    } catch (const Error& error) {
      ::_exit(error.fault() == Fault::io ? 7 : 8);
    }
    ::_exit(0);
  }
  static void come(const std::function<bool()>& holds) {
    for (int tries = 0; tries < 6000 && !holds(); ++tries) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    REQUIRE(holds());
  }

  ScratchFolder folder_;
  UniqueFd fd_ = comm::JobMemory::create(), lock_;
  comm::JobMemory memory_{fd_.get()};
  ScribeChannel launcher_;
  pid_t scribe_ = -1;
  Step step_;
  bool ended_ = false;
};

TEST_CASE("without a launcher and without room the scribe keeps the state until there is some") {
  FakeJob job;
  job.train_until(20);
  job.wait_for_records();
  job.limit_files(100);
  job.train_until(30);
  job.wait_for<WriteFailed>();
  job.launcher().close();
  job.wait_until_it_waits();
  CHECK(job.lives());
  CHECK(job.step_saved() == -1);
  SUBCASE("room") {
    job.limit_files(RLIM_INFINITY);
    CHECK(job.exit_code() == 0);
    CHECK(job.step_saved() == 30);
    CHECK(job.steps_recorded() == 30);
  }
  SUBCASE("the run directory is gone: nobody could go on from there") {
    std::filesystem::remove_all(job.run());
    CHECK(job.exit_code() == 7);
  }
}

TEST_CASE("a scribe without a launcher holds the lock of a lock file that was made anew, or leaves the run to others") {
  FakeJob job;
  job.train_until(20);
  job.wait_for_records();
  job.limit_files(100);
  job.train_until(30);
  job.wait_for<WriteFailed>();
  std::filesystem::remove(job.lock_file());
  UniqueFd anew, looks;
  REQUIRE(lock_file_at(job.lock_file(), anew));
  SUBCASE("the launcher had the new file's lock") {
    job.launcher().close();
    anew.reset();
    job.wait_until_it_waits();
    CHECK_FALSE(lock_file_at(job.lock_file(), looks));
    job.limit_files(RLIM_INFINITY);
    CHECK(job.exit_code() == 0);
    CHECK(job.step_saved() == 30);
  }
  SUBCASE("another launcher has it") {
    job.limit_files(RLIM_INFINITY);
    job.wait_for_records();
    job.launcher().close();
    CHECK(job.exit_code() == 8);
    CHECK(job.step_saved() == -1);
  }
}

TEST_CASE("news of records in the files are told once, while the records behind them wait for room") {
  FakeJob job;
  job.train_until(10);
  job.wait_for_records();
  job.limit_files(std::filesystem::file_size(job.run() + "/metrics.jsonl") + 600);  // for two steps and an evaluation
  job.at_once([&] {
    job.train_until(12, true);
    job.evaluate();
    job.train_until(60);
  });
  const std::vector<ScribeReport> heard = job.hear_until_quiet(60s, 20);
  const auto count = [&]<typename Report>(const Report*) {
    return std::ranges::count_if(heard, [](const ScribeReport& one) { return std::holds_alternative<Report>(one); });
  };
  CHECK(count(static_cast<const Skipped*>(nullptr)) == 2);
  CHECK(count(static_cast<const Evaluated*>(nullptr)) == 1);
  CHECK(count(static_cast<const WriteFailed*>(nullptr)) == 1);
  job.limit_files(RLIM_INFINITY);
  job.wait_for_records();
  CHECK(job.hear_until_quiet(500ms, 20).empty());
  job.launcher().send(FinishFiles{});
  CHECK(job.exit_code() == 0);
  CHECK(job.steps_recorded() == 60);
  CHECK(read_metrics(job.run() + "/metrics.jsonl").evaluations.size() == 1);
}

TEST_CASE("steps that have waited for room have the speed at which they were made") {
  FakeJob job;
  job.train_until(20);
  job.wait_for_records();
  job.limit_files(100);
  job.train_until(30);
  job.wait_for<WriteFailed>();
  job.limit_files(RLIM_INFINITY);
  job.wait_for_records();
  const std::vector<StepRecord> steps = read_metrics(job.run() + "/metrics.jsonl").steps;
  REQUIRE(steps.size() == 30);
  CHECK(std::ranges::count(steps, 1.0, &StepRecord::samples_per_second) == 29);  // of the first it is not known
}

TEST_CASE("records behind a change of the batch have its speed, and the state before them does not know of it") {
  FakeJob job;
  job.train_until(20);
  job.wait_for_records();
  job.at_once([&] {
    REQUIRE(job.memory().hold().try_hold(Step(20)));
    job.memory().batch_changes().add({20, 5, 2});
    job.train_until(21);
  });
  CHECK(job.wait_for<Saved>().step == Step(20));
  job.train_until(30);
  job.wait_for_records();
  const auto saved = checkpoint::CheckpointDirectory(job.run() + "/checkpoints").newest_valid();
  REQUIRE(saved.file);
  CHECK(saved.file->meta().spec.find("after = 20") == std::string::npos);
  const std::vector<StepRecord> steps = read_metrics(job.run() + "/metrics.jsonl").steps;
  REQUIRE(steps.size() == 30);
  CHECK(steps[19].samples_per_second == 1);
  CHECK(steps[20].samples_per_second == 5);
  REQUIRE(job.memory().hold().try_hold(Step(30)));
  job.launcher().send(SaveState{Step(30)});
  CHECK(job.wait_for<Saved>().step == Step(30));
  const auto later = checkpoint::CheckpointDirectory(job.run() + "/checkpoints").newest_valid();
  REQUIRE(later.file);
  CHECK(later.file->meta().samples == 20 + 10 * 5);
  CHECK(later.file->meta().spec.find("after = 20") != std::string::npos);
}

TEST_CASE("a state that changed in memory becomes no checkpoint") {
  FakeJob job;
  job.train_until(20);
  std::byte& byte = job.memory().state_of(Step(20))[77];
  byte ^= std::byte{16};
  REQUIRE(job.memory().hold().try_hold(Step(20)));
  job.launcher().send(SaveState{Step(20)});
  const SaveFailed failed = job.wait_for<SaveFailed>();
  CHECK(failed.damaged);
  CHECK(failed.step == Step(20));
  CHECK(failed.error == "found the state damaged in memory: w is not what was written");
  CHECK(job.step_saved() == -1);
  byte ^= std::byte{16};
  REQUIRE(job.memory().hold().try_hold(Step(20)));
  job.launcher().send(SaveState{Step(20)});
  CHECK(job.wait_for<Saved>().step == Step(20));
  CHECK(job.step_saved() == 20);
}

TEST_CASE("a launcher that hears many messages late hears all of them, with the end of a save") {
  constexpr int64_t kMany = 1000;  // several times what the kernel holds for it
  FakeJob job;
  for (int64_t step = 100; step <= kMany; step += 100) {
    job.train_until(step, true);
    job.wait_for_records();
  }
  REQUIRE(job.memory().hold().try_hold(Step(kMany)));
  job.launcher().send(SaveState{Step(kMany)});
  for (int tries = 0; tries < 6000 && job.step_saved() != kMany; ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  REQUIRE(job.step_saved() == kMany);
  for (int64_t step = 1; step <= kMany; ++step) REQUIRE(job.wait_for<Skipped>().step == Step(step));
  CHECK(job.wait_for<Saved>().step == Step(kMany));
}

TEST_CASE(
    "told to finish without room, the scribe waits for records that a checkpoint is ahead of, and for no others") {
  constexpr int64_t kMany = 400, kAll = 410;  // the records of this many steps are larger than a checkpoint
  FakeJob job;
  job.train_until(kMany);
  job.wait_for_records();
  const auto size = std::filesystem::file_size(job.run() + "/metrics.jsonl");
  job.limit_files(size);
  job.train_until(kAll);
  job.wait_for<WriteFailed>();
  SUBCASE("a checkpoint is ahead of them") {
    REQUIRE(job.memory().hold().try_hold(Step(kAll)));
    job.launcher().send(SaveState{Step(kAll)});
    job.wait_for<Saved>();
    CHECK(job.step_saved() == kAll);
    job.launcher().send(FinishFiles{});
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    CHECK(job.lives());
    job.limit_files(RLIM_INFINITY);
    CHECK(job.exit_code() == 0);
  }
  SUBCASE("the launcher is gone while it waits") {
    REQUIRE(job.memory().hold().try_hold(Step(kAll)));
    job.launcher().send(SaveState{Step(kAll)});
    job.wait_for<Saved>();
    job.launcher().send(FinishFiles{});
    job.launcher().close();
    job.wait_until_it_waits();
    job.limit_files(RLIM_INFINITY);
    CHECK(job.exit_code() == 0);
  }
  SUBCASE("none is: a resume repeats them") {
    job.launcher().send(FinishFiles{});
    CHECK(job.exit_code() == 7);
    return;
  }
  CHECK(job.steps_recorded() == kAll);
}

TEST_CASE(
    "told to finish during a save, the scribe says that it lives until the save is over, however slow the disk is") {
  FakeJob job;
  job.train_until(20);
  job.wait_for_records();
  const std::string fingerprints = job.run() + "/fingerprints";  // synced before a checkpoint is published
  std::filesystem::remove(fingerprints);
  REQUIRE(::mkfifo(fingerprints.c_str(), 0600) == 0);
  REQUIRE(job.memory().hold().try_hold(Step(20)));
  job.launcher().send(SaveState{Step(20)});
  job.wait_for_copy();
  job.launcher().send(FinishFiles{});
  CHECK(count_beats(job.memory(), 10) == 10);
  CHECK(job.lives());
  const UniqueFd writer(::open(fingerprints.c_str(), O_RDWR | O_CLOEXEC));
  CHECK(job.exit_code() == 0);
}

}  // namespace
}  // namespace estrain::record
