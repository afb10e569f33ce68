#include "core/launch/run_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <thread>
#include <utility>

#include "core/base/clock.h"
#include "core/base/files.h"
#include "core/spec/parse.h"

namespace estrain::launch {

std::string RunDirectory::worker_log(int64_t worker) const { return fmt::format("{}/worker-{}.log", path_, worker); }

bool RunDirectory::has_run() const {
  std::error_code failure;
  const bool found = std::filesystem::exists(spec(), failure);
  if (failure) throw Error::make(Fault::usage, "{}: {}", path_, failure.message());
  return found;
}

namespace {

// Of the process that a lock file names.
bool has_ended(const std::string& owner) {
  const pid_t pid = std::atoi(owner.c_str());
  return pid > 0 && ::kill(pid, 0) != 0 && errno == ESRCH;
}

}  // namespace

UniqueFd RunDirectory::lock(int milliseconds) const {
  make_folders(path_);
  const std::string lock_path = path_ + "/lock";
  UniqueFd fd = open_file(lock_path, O_RDWR | O_CREAT);
  const int64_t deadline = monotonic_ns() + milliseconds * INT64_C(1'000'000);
  bool waits_for_scribe = false;
  while (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    const std::string owner = read_file(lock_path);
    if (milliseconds > 0 && has_ended(owner)) {
      if (!std::exchange(waits_for_scribe, true))
        fmt::print(stderr, "{}: the last launcher's scribe is still writing: waiting for it\n", path_);
    } else if (monotonic_ns() >= deadline) {
      throw Error::make(Fault::usage, "{}: another launcher is at work on this run directory{}", path_,
                        owner.empty() ? "" : " (process " + owner + ")")
          .advise("wait for it, stop it with `estrain stop`, or give this run a directory of its own with --run");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  const std::string owner = std::to_string(::getpid());
  if (::ftruncate(fd.get(), 0) != 0 || ::pwrite(fd.get(), owner.data(), owner.size(), 0) < 0) {
    throw system_error("cannot write " + lock_path, errno);
  }
  return fd;
}

void RunDirectory::write_spec(const spec::JobSpec& job) const { write_file_atomically(spec(), spec::to_toml(job)); }

spec::JobSpec RunDirectory::read_spec() const { return spec::parse_file(spec()); }

void RunDirectory::log_event(std::string_view name, const Json& details) const {
  Json line = {{"time", utc_timestamp()}, {"event", name}};
  line.update(details);
  try {
    append_line(events(), line.dump(-1, ' ', false, Json::error_handler_t::replace));
  } catch (const Error& error) {
    fmt::print(stderr, "warning: an event is not recorded: {}\n", error.message());
  }
}

}  // namespace estrain::launch
