#include "core/run/launch/preflight/machine.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ctime>
#include <functional>

#include "core/base/files/files.h"
#include "tests/scratch_folder.h"

namespace estrain::launch {
namespace {

// Whether `holds` in a child process, so that its limits and user ids end with it.
bool holds_in_child(const std::function<bool()>& holds) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(holds() ? 0 : 1);
  int status = -1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool limit(__rlimit_resource resource, rlim_t value) {
  rlimit limits{};
  if (::getrlimit(resource, &limits) != 0) return false;
  limits.rlim_cur = value;
  return ::setrlimit(resource, &limits) == 0;
}

TEST_CASE("the facts of this machine") {
  const ScratchFolder folder;
  const Machine machine = Machine::here(folder / "not/there/yet");
  CHECK(machine.memory_available > 0);
  CHECK(machine.cores >= 1);
  CHECK(machine.cores <= ::sysconf(_SC_NPROCESSORS_CONF));
  CHECK_FALSE(machine.cores_from.empty());
  CHECK(machine.open_files >= 3);
  CHECK(machine.shared_memory_refusal == "");
  CHECK(machine.run.folder == folder.path());
  CHECK(machine.run.refusal == "");
  CHECK(machine.run.free_bytes.value() > 0);
  CHECK_FALSE(machine.run.has_run);
  CHECK(machine.now >= ::time(nullptr) - 5);
  CHECK(machine.newest_file > 0);
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("a run directory with a run") {
  const ScratchFolder folder;
  make_folders(folder / "run/checkpoints");
  replace_bytes(folder / "run/job.toml", "");
  replace_bytes(folder / "run/checkpoints/step-000000000.h5", std::string(100'000, 'x'));
  const Machine machine = Machine::here(folder / "run");
  CHECK(machine.run.folder == folder / "run");
  CHECK(machine.run.has_run);
  CHECK(machine.run.checkpoint_bytes >= 100'000);
  CHECK(machine.run.checkpoint_bytes < 200'000);
}

TEST_CASE("where no run directory can be made, it says why") {
  const ScratchFolder folder;
  replace_bytes(folder / "file", "");
  CHECK(Machine::here(folder / "file/run").run.refusal == folder / "file" + " is not a folder");
  CHECK(Machine::here("/proc/run").run.refusal.starts_with("no file can be made in /proc: "));
}

TEST_CASE("somebody else's folder and files are refused") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: only root can become somebody else");
    return;
  }
  const ScratchFolder folder;
  make_folders(folder / "open");
  make_folders(folder / "closed");
  replace_bytes(folder / "open/lock", "");
  ::chmod(folder.path().c_str(), 0755);
  ::chmod((folder / "open").c_str(), 0777);
  const auto refusal_for_nobody = [&](const std::string& path, const std::string& words) {
    return holds_in_child([&] {
      if (::setresuid(65534, 65534, 65534) != 0) return false;
      const std::string refusal = Machine::here(path).run.refusal;
      return words.empty() ? refusal.empty() : refusal.find(words) != std::string::npos;
    });
  };
  CHECK(
      refusal_for_nobody(folder / "closed/run", "no file can be made in " + folder / "closed" + ": Permission denied"));
  CHECK(refusal_for_nobody(folder / "open", "lock cannot be written: Permission denied"));
  CHECK(refusal_for_nobody(folder / "open/run", ""));
}

TEST_CASE("limits are told, and for root that of processes does not count") {
  CHECK(holds_in_child([] {
    return limit(RLIMIT_NOFILE, 77) && limit(RLIMIT_FSIZE, 12345) && limit(RLIMIT_AS, uint64_t{1} << 46) && [] {
      const Machine machine = Machine::here("/tmp");
      return machine.limits.open_files == 77 && machine.limits.file_bytes == 12345 &&
             machine.limits.address_space == uint64_t{1} << 46;
    }();
  }));
  CHECK(holds_in_child([] {
    if (!limit(RLIMIT_NPROC, 1000)) return false;
    const bool root_is_free = ::geteuid() != 0 || !Machine::here("/tmp").limits.tasks_left;
    if (::geteuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) return false;
    const Machine machine = Machine::here("/tmp");
    return root_is_free && machine.limits.tasks_left && *machine.limits.tasks_left < 1000;  // including this process
  }));
}

TEST_CASE("a file from the future is found in the run directory and among those named") {
  const ScratchFolder folder;
  replace_bytes(folder / "events.jsonl", "");
  const auto set_date = [](const std::string& path, int64_t time) {
    const timespec times[2] = {{time, 0}, {time, 0}};
    REQUIRE(::utimensat(AT_FDCWD, path.c_str(), times, 0) == 0);
  };
  const int64_t future = ::time(nullptr) + 100'000;
  set_date(folder / "events.jsonl", future);
  const Machine machine = Machine::here(folder.path());
  CHECK(machine.newest_file == future);
  CHECK(machine.newest_path == folder / "events.jsonl");
  replace_bytes(folder / "data", "");
  set_date(folder / "data", future + 1);
  CHECK(Machine::here("/tmp/nothing", {folder / "data", folder / "absent", ""}).newest_path == folder / "data");
}

}  // namespace
}  // namespace estrain::launch
