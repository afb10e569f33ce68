// How a start treats an existing run directory: a mistaken start loses nothing of a run.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>

#include "core/base/files/file_lock.h"
#include "core/base/files/files.h"
#include "core/job/spec/parsing/parse.h"
#include "core/state/checkpoint/checkpoint_file.h"
#include "core/state/run_directory/run_owner.h"
#include "edited_file.h"
#include "job.h"
#include "job_specs.h"
#include "run_files.h"
#include "stopped_at_open.h"

namespace estrain::testing {
namespace {

namespace fs = std::filesystem;

// All files of a run except its lock and socket, by name.
std::map<std::string, std::string> files_of(const std::string& run) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(run)) {
    if (!entry.is_regular_file() || entry.path().filename() == "lock") continue;
    files[fs::relative(entry.path(), run).string()] = read_file(entry.path().string());
  }
  return files;
}

void put(const std::string& run, const std::string& place) {
  for (const auto& [name, bytes] : files_of(run)) {
    fs::create_directories(fs::path(place + "/" + name).parent_path());
    std::ofstream(place + "/" + name, std::ios::binary) << bytes;
  }
}

bool has_open(pid_t pid, const std::string& path) {
  std::error_code gone;
  for (const auto& entry : fs::directory_iterator(fs::path("/proc") / std::to_string(pid) / "fd", gone))
    if (fs::read_symlink(entry.path(), gone) == path) return true;
  return false;
}

std::string real_path(const std::string& path) { return fs::canonical(path).string(); }

struct Finished {
  ScratchFolder folder;
  std::string spec = folder.write("job.toml", mlp_job());
  std::string run = train_on(folder, spec, "2", {"--set", "checkpoint.every=5"});
};

void check_untouched(const std::string& run, const std::string& original) {
  const auto now = files_of(run), before = files_of(original);
  for (const auto& [name, bytes] : before) {
    if (name == "events.jsonl" || name == "verdict.json") continue;  // they tell of the refusal
    CAPTURE(name);
    REQUIRE(now.contains(name));
    CHECK(now.at(name) == bytes);
  }
  CHECK(now.size() == before.size());
}

TEST_CASE("a resume that waits for the lock goes by what the directory holds when it has it") {
  const Finished finished;
  const std::string run = finished.folder / "other";
  fs::create_directory(run);
  UniqueFd lock = open_file(run + "/lock", O_RDWR | O_CREAT);
  REQUIRE(take_lock(lock.get(), run + "/lock"));
  Command resume({"train", finished.spec, "--resume", "--run", run, "--set", "optimizer.lr=0.5"});
  wait_until("the resume at the lock", [&] { return has_open(resume.pid(), real_path(run) + "/lock"); });
  put(finished.run, run);
  lock.reset();
  const Ended ended = resume.wait();
  INFO(ended.shown());
  CHECK(ended.code == 2);
  CHECK(ended.says("the spec has changed since the run began: optimizer.lr"));
  check_untouched(run, finished.run);
}

TEST_CASE("a first start that was overtaken by another leaves that one's run alone") {
  const Finished finished;
  const std::string run = finished.folder / "other", go = finished.folder / "go";
  fs::create_directory(run);
  REQUIRE(::mkfifo(go.c_str(), 0600) == 0);
  const UniqueFd signal = open_file(go, O_RDWR);
  Command late({"train", finished.spec, "--run", run}, {.before = "read go <'" + go + "'"});
  {
    StoppedAtOpen stopped(late.pid(), run + "/lock");
    REQUIRE(::write(signal.get(), "go\n", 3) == 3);
    stopped.reach();
    put(finished.run, run);
  }
  const Ended ended = late.wait();
  INFO(ended.shown());
  CHECK(ended.code == 2);
  CHECK(ended.says("there is a run already"));
  check_untouched(run, finished.run);
}

TEST_CASE("a job whose lock file was deleted keeps other launchers out, and makes the file anew") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", long_job());
  Job job(spec, folder / "run");
  job.reach(5);
  const std::string lock = job.run() + "/lock";
  fs::remove(lock);
  const Ended second = estrain({"train", spec, "--run", job.run()});
  INFO(second.shown());
  CHECK(second.code == 2);
  CHECK(second.says("another launcher is at work on this run directory"));
  const auto owner = [&] { return run_directory::RunOwner::from_text(text_if_readable(lock)); };
  wait_until("a lock file that names the launcher", [&] { return owner() && owner()->pid == job.pid(); });
  CHECK(job.stop().code == 0);
  CHECK(job.launcher().wait().code == 75);
}

TEST_CASE("a start that fails is at work on the directory no longer") {
  const Finished finished;
  CHECK(estrain({"train", "--resume", "--run", finished.run, "--set", "data.batch=2"}).code == 2);
  CHECK(read_file(finished.run + "/lock").empty());
  CHECK(estrain({"train", finished.spec, "--run", finished.run}).code == 2);
  CHECK(read_file(finished.run + "/lock").empty());
}

void check_edit_refused(const std::string& from, const std::string& to, const std::string& named) {
  const Finished finished;
  const std::string job = finished.run + "/job.toml", original = finished.folder / "original";
  put(finished.run, original);
  edit(job, from, to);
  edit(original + "/job.toml", from, to);
  const Ended resumed = estrain({"train", "--resume", "--run", finished.run, "--set", "train.steps=16"});
  INFO(resumed.shown());
  CHECK(resumed.code == 2);
  CHECK(resumed.says("the spec has changed since the run began: " + named));
  CHECK(resumed.says("step-000000013.h5: " + named + from.substr(from.find(" = "))));
  check_untouched(finished.run, original);

  // It continues with the spec that the run began with, and restores it as job.toml.
  const Ended given = estrain({"train", finished.spec, "--resume", "--run", finished.run, "--set", "train.steps=16"});
  INFO(given.shown());
  CHECK(given.code == 0);
  CHECK(read_file(job).find(to) == std::string::npos);
  const std::string whole = train_on(finished.folder, finished.spec, "1", {"--set", "train.steps=16"});
  CHECK(checkpoint_difference(latest_checkpoint(finished.run), latest_checkpoint(whole)) == "");
}

TEST_CASE("a learning rate edited in job.toml between stop and resume is refused by name, and nothing is overwritten") {
  check_edit_refused("lr = 0.01", "lr = 0.5", "optimizer.lr");
}

TEST_CASE("a batch edited in job.toml between stop and resume is refused by name, and nothing is overwritten") {
  check_edit_refused("batch = 4", "batch = 8", "data.batch");
}

void check_goes_on_without_spec(const std::function<void(const std::string& job)>& damage) {
  const Finished finished;
  const std::string job = finished.run + "/job.toml";
  const spec::JobSpec before = spec::parse_file(job);
  damage(job);
  const Ended status = estrain({"status", finished.run, "--json"});
  INFO(status.shown());
  CHECK(status.code == 0);
  CHECK(parse_json(status.text, "status").at("name") == "mlp");
  const Ended second = estrain({"train", finished.spec, "--run", finished.run});
  CHECK(second.code == 2);
  CHECK(second.says("there is a run already"));
  const Ended resumed = estrain({"train", "--resume", "--run", finished.run, "--set", "train.steps=16"});
  INFO(resumed.shown());
  CHECK(resumed.code == 0);
  CHECK(resumed.says(job));
  CHECK(resumed.says("continues with the spec of " + finished.run + "/checkpoints/step-000000013.h5"));
  CHECK(spec::changed_keys(before, spec::parse_file(job)).empty());
  const std::string whole = train_on(finished.folder, finished.spec, "1", {"--set", "train.steps=16"});
  CHECK(checkpoint_difference(latest_checkpoint(finished.run), latest_checkpoint(whole)) == "");
  const Ended verified = estrain({"verify", finished.run, whole});
  INFO(verified.shown());
  CHECK(verified.code == 0);
}

TEST_CASE("without its job.toml a run goes on with the spec of its checkpoint") {
  check_goes_on_without_spec([](const std::string& job) { fs::remove(job); });
}

TEST_CASE("with a job.toml that is cut off a run goes on with the spec of its checkpoint") {
  check_goes_on_without_spec([](const std::string& job) { fs::resize_file(job, fs::file_size(job) / 2); });
}

TEST_CASE("neither job.toml nor a checkpoint tells the spec: the resume says so, and takes it from the user") {
  const Finished finished;
  std::ofstream(finished.run + "/job.toml") << "[job\n";
  for (const auto& file : fs::directory_iterator(finished.run + "/checkpoints"))
    if (!file.is_symlink()) fs::resize_file(file.path(), 100);
  const Ended refused = estrain({"train", "--resume", "--run", finished.run});
  INFO(refused.shown());
  CHECK(refused.code == 2);
  CHECK(refused.says(finished.run + "/job.toml"));
  CHECK(refused.says("estrain train SPEC.toml --resume --run " + finished.run));
  const Ended given = estrain({"train", finished.spec, "--resume", "--run", finished.run});
  INFO(given.shown());
  CHECK(given.code == 0);
  CHECK(metric_steps(finished.run) == first_steps(13));
}

}  // namespace
}  // namespace estrain::testing
