#include "core/state/run_directory/run_directory.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "core/base/clock.h"
#include "core/base/files/file_lock.h"
#include "core/base/files/files.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace estrain::run_directory {
namespace {

TEST_CASE("a run directory is one launcher's at a time") {
  const ScratchFolder folder;
  const RunDirectory run(folder / "deep/run");
  UniqueFd lock = run.lock(0s);
  CHECK(run.owner().value().pid == ::getpid());
  const Error error = error_of([&] { run.lock(0s); });
  CHECK(error.fault() == Fault::usage);
  CHECK(error.message() == run.path() + ": another launcher is at work on this run directory (process " +
                               std::to_string(::getpid()) + ")");
  lock.reset();
  CHECK(run.owner().has_value());
  CHECK_FALSE(run.owner_elsewhere().has_value());
  lock = run.lock(0s);
  run.disown(lock.get());
  CHECK_FALSE(run.owner().has_value());
}

// While it lives, no write to a file of this process succeeds, as on a full disk.
class NoRoom {
 public:
  NoRoom() {
    std::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit none{0, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &none);
  }
  ~NoRoom() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, SIG_DFL);
  }
  NoRoom(const NoRoom&) = delete;

 private:
  rlimit before_{};
};

TEST_CASE("a process that cannot write itself down as the owner leaves the owner before on record") {
  const ScratchFolder folder;
  const RunDirectory run(folder.path());
  const RunOwner before{7, "a host with a long name", "1234567"};
  replace_bytes(run.lock_file(), before.to_text());
  const UniqueFd lock = run.try_lock().value();
  const auto own_without_room = [&] {
    const NoRoom full;
    return error_of([&] { run.own(lock); });
  };
  CHECK(own_without_room().fault() == Fault::io);
  CHECK(run.owner().value().host == before.host);
  run.own(lock);
  CHECK(run.owner().value().pid == ::getpid());
  CHECK(read_file(run.lock_file()) == RunOwner::this_process().to_text());
}

// A run directory locked by a launcher on another host, whose lock this host does not see.
struct OwnedElsewhere {
  ScratchFolder folder;
  RunDirectory run{folder.path()};
  RunOwner owner{7, RunOwner::this_process().host + "-not", ""};

  OwnedElsewhere() { replace_bytes(run.lock_file(), owner.to_text()); }
  void touched(int64_t seconds_ago) const {
    const timespec times[] = {{0, UTIME_OMIT}, {unix_seconds() - seconds_ago, 0}};
    REQUIRE(::utimensat(AT_FDCWD, run.lock_file().c_str(), times, 0) == 0);
  }
};

TEST_CASE("an owner on another host is seen as long as it shows life") {
  const OwnedElsewhere other;
  CHECK(other.run.owner_elsewhere().value().pid == 7);
  other.touched(60);
  CHECK(other.run.owner_elsewhere().has_value());
  other.touched(120);
  CHECK_FALSE(other.run.owner_elsewhere().has_value());
  CHECK(other.run.owner().has_value());
}

TEST_CASE("a lock that another host's owner still touches is not taken, though it looks free here") {
  const OwnedElsewhere other;
  auto lock = std::async(std::launch::async, [&] { return error_of([&] { other.run.lock(0s); }); });
  while (lock.wait_for(std::chrono::milliseconds(20)) != std::future_status::ready) other.touched(0);
  const Error error = lock.get();
  CHECK(error.fault() == Fault::usage);
  CHECK(error.message().find("another launcher is at work on this run directory (process 7 on " + other.owner.host) !=
        std::string::npos);
  CHECK(other.run.owner().value().pid == 7);

  other.touched(3600);
  CHECK_NOTHROW(other.run.lock(0s));
  CHECK(other.run.owner().value().pid == ::getpid());
}

TEST_CASE("a lock lasts until the last copy of its descriptor is closed, as a child's") {
  const ScratchFolder folder;
  const RunDirectory run(folder / "run");
  UniqueFd lock = run.lock(0s);
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[1]);
    char byte = 0;
    ::_exit(static_cast<int>(::read(ends[0], &byte, 1)));
  }
  UniqueFd reader(ends[0]), writer(ends[1]);
  lock.reset();
  CHECK(error_of([&] { run.lock(0s); }).fault() == Fault::usage);
  auto waiting = std::async(std::launch::async, [&] { return run.lock(20s); });
  CHECK(waiting.wait_for(std::chrono::milliseconds(60)) == std::future_status::timeout);
  writer.reset();
  ::waitpid(child, nullptr, 0);
  CHECK(static_cast<bool>(waiting.get()));
}

TEST_CASE("the scribe of a launcher that has ended is waited for beyond any limit, if at all") {
  const ScratchFolder folder;
  const RunDirectory run(folder / "run");
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t launcher = ::fork();
  if (launcher == 0) {
    ::close(ends[1]);
    const UniqueFd lock = run.lock(0s);
    char byte = 0;
    if (::fork() == 0) ::_exit(static_cast<int>(::read(ends[0], &byte, 1)));  // its scribe
    ::_exit(0);
  }
  UniqueFd reader(ends[0]), writer(ends[1]);
  ::waitpid(launcher, nullptr, 0);
  CHECK(error_of([&] { run.lock(0s); }).fault() == Fault::usage);
  auto waiting = std::async(std::launch::async, [&] { return run.lock(10ms); });
  CHECK(waiting.wait_for(std::chrono::milliseconds(200)) == std::future_status::timeout);
  writer.reset();
  CHECK(static_cast<bool>(waiting.get()));
}

TEST_CASE("a launcher makes its deleted lock file anew, with its lock") {
  const ScratchFolder folder;
  const RunDirectory run(folder / "run");
  const UniqueFd lock = run.lock(0s);
  CHECK(run.keep_lock(lock.get()));
  std::filesystem::remove(run.lock_file());
  CHECK(run.keep_lock(lock.get()));
  CHECK(is_file_at(lock.get(), run.lock_file()));
  CHECK(run.owner().value().is_this_process());
  CHECK(error_of([&] { run.lock(0s); }).fault() == Fault::usage);
  run.disown(lock.get());
  CHECK_FALSE(run.owner().has_value());
}

TEST_CASE("a launcher whose deleted lock file has another owner by now hears so, and one that is looking is no owner") {
  const ScratchFolder folder;
  const RunDirectory run(folder / "run");
  const UniqueFd lock = run.lock(0s);
  std::filesystem::remove(run.lock_file());
  {
    const UniqueFd looks = run.try_lock().value();
    CHECK(run.keep_lock(lock.get()));
    CHECK(is_file_at(looks.get(), run.lock_file()));
  }
  replace_bytes(run.lock_file(), RunOwner{7, "another host", ""}.to_text());
  CHECK_FALSE(run.keep_lock(lock.get()));
  CHECK(run.owner().value().pid == 7);
}

TEST_CASE("who holds the lock of the new file is another launcher, though its process has the same number and host") {
  const ScratchFolder folder;
  const RunDirectory run(folder / "run");
  const UniqueFd lock = run.lock(0s);
  std::filesystem::remove(run.lock_file());
  const UniqueFd of_other = run.try_lock().value();
  run.own(of_other);
  CHECK_FALSE(run.keep_lock(lock.get()));
}

TEST_CASE("a run directory that is gone is not made anew for its lock") {
  const ScratchFolder folder;
  const RunDirectory run(folder / "run");
  const UniqueFd lock = run.lock(0s);
  std::filesystem::rename(run.path(), folder / "elsewhere");
  CHECK(run.keep_lock(lock.get()));
  CHECK_FALSE(std::filesystem::exists(run.path()));
}

TEST_CASE("a lock is never that of a file which its last holder deleted") {
  const ScratchFolder folder;
  const RunDirectory run(folder.path());
  std::atomic<int> deleted = 0;
  std::vector<std::future<void>> launchers;
  for (int i = 0; i < 4; ++i) {
    launchers.push_back(std::async(std::launch::async, [&] {
      for (int round = 0; round < 5000; ++round) {
        const std::optional<UniqueFd> lock = run.try_lock();
        if (!lock) continue;
        struct stat held {};
        ::fstat(lock->get(), &held);
        deleted += held.st_nlink == 0;
        ::unlink(run.lock_file().c_str());
      }
    }));
  }
  for (std::future<void>& launcher : launchers) launcher.get();
  CHECK(deleted == 0);
}

TEST_CASE("a run whose scribe lives is not free, though its lock file was deleted") {
  const ScratchFolder folder;
  const RunDirectory run(folder / "run");
  make_folders(run.path());
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  const pid_t scribe = ::fork();
  if (scribe == 0) {
    ::dup2(ends[0], STDIN_FILENO);
    ::execl("/bin/sh", "estrain", "-c", "read word", "scribe", "--run", run.path().c_str(), nullptr);
    ::_exit(1);
  }
  UniqueFd reader(ends[0]), writer(ends[1]);
  while (text_if_readable("/proc/" + std::to_string(scribe) + "/cmdline").find("--run") == std::string::npos)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const Error error = error_of([&] { run.lock(0s); });
  CHECK(error.fault() == Fault::usage);
  CHECK(error.message().find("(its scribe is process " + std::to_string(scribe) + ")") != std::string::npos);
  CHECK(static_cast<bool>(RunDirectory(folder / "other").lock(0s)));
  writer.reset();
  ::waitpid(scribe, nullptr, 0);
  CHECK(static_cast<bool>(run.lock(0s)));
}

TEST_CASE("waiting for a lock has a limit") {
  const ScratchFolder folder;
  const RunDirectory run(folder / "run");
  const UniqueFd lock = run.lock(0s);
  const int64_t begin = monotonic_ns();
  CHECK(error_of([&] { run.lock(100ms); }).fault() == Fault::usage);
  CHECK(seconds(monotonic_ns() - begin) >= 0.1);
}

TEST_CASE("a folder that cannot be made is an error that names it") {
  const ScratchFolder folder;
  write_file_atomically(folder / "file", "");
  const Error error = error_of([&] { RunDirectory(folder / "file/run").lock(0s); });
  CHECK(error.fault() == Fault::io);
  CHECK(error.message().find(folder / "file/run") != std::string::npos);
}

TEST_CASE("there is a run once there is a spec, which is read as it was written") {
  const ScratchFolder folder;
  const RunDirectory run(folder / "run");
  make_folders(run.path());
  CHECK_FALSE(run.has_run());
  spec::JobSpec spec;
  spec.job.name = "a name";
  spec.job.ests = 6;
  spec.model.name = "mlp";
  spec.train.steps = 10;
  run.write_spec(spec);
  CHECK(run.has_run());
  CHECK(run.read_spec().job == spec.job);
  CHECK(run.read_spec().train.steps == 10);
}

TEST_CASE("events are lines with their time and name in front") {
  const ScratchFolder folder;
  const RunDirectory run(folder.path());
  run.log_event("stage", {{"step", 5}});
  run.log_event("finished", Json::object());
  const std::string text = read_file(run.events());
  const size_t second = text.find('\n') + 1;
  const Json first = parse_json(text.substr(0, second), "events");
  CHECK(first.begin().key() == "time");
  CHECK(first.at("event") == "stage");
  CHECK(first.at("step") == 5);
  CHECK(parse_json(text.substr(second), "events").at("event") == "finished");
  CHECK(text.back() == '\n');
}

TEST_CASE("where things lie") {
  const RunDirectory run("/runs/a");
  CHECK(run.spec() == "/runs/a/job.toml");
  CHECK(run.checkpoints() == "/runs/a/checkpoints");
  CHECK(run.worker_log(12) == "/runs/a/worker-12.log");
}

TEST_CASE("a link in the place of a file of the run is named, and what it leads to stays as it is") {
  for (const char* name :
       {"lock", "changes.jsonl", "events.jsonl", "algorithms.jsonl", "metrics.jsonl", "fingerprints", "scribe.log"}) {
    CAPTURE(name);
    const ScratchFolder folder;
    const std::string precious = folder.write("precious", "content");
    const RunDirectory run(folder / "run");
    make_folders(run.path());
    std::filesystem::create_symlink(precious, run.path() + "/" + name);
    const Error error = error_of([&] { run.lock(0s); });
    CHECK(error.fault() == Fault::usage);
    CHECK(error.message() == run.path() + "/" + name + ": refusing to write to it: a symbolic link to " + precious);
    CHECK(read_file(precious) == "content");
  }
}

TEST_CASE("a run directory may be a link to a folder elsewhere, and so may its checkpoints, of the same user") {
  const ScratchFolder folder;
  make_folders(folder / "scratch/checkpoints");
  make_folders(folder / "scratch/run");
  std::filesystem::create_directory_symlink(folder / "scratch/run", folder / "run");
  std::filesystem::create_directory_symlink(folder / "scratch/checkpoints", folder / "run/checkpoints");
  CHECK(static_cast<bool>(RunDirectory(folder / "run").lock(0s)));
  CHECK(std::filesystem::exists(folder / "scratch/run/lock"));
}

TEST_CASE("a pipe in the place of a run's spec or lock is an error at once") {
  const ScratchFolder folder;
  const RunDirectory run(folder.path());
  REQUIRE(::mkfifo(run.spec().c_str(), 0600) == 0);
  const Error error = error_of([&] { run.read_spec(); });
  CHECK(error.fault() == Fault::spec);
  CHECK(error.message() == "cannot read " + run.spec() + ": a FIFO, not a regular file");
  REQUIRE(::mkfifo(run.lock_file().c_str(), 0600) == 0);
  CHECK_FALSE(run.owner().has_value());
  CHECK(error_of([&] { run.lock(0s); }).message() == run.lock_file() + ": refusing to write to it: not a regular file");
}

}  // namespace
}  // namespace estrain::run_directory
