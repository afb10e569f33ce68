#include "core/state/run_directory/run_owner.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <ctime>
#include <thread>

#include "core/base/clock.h"
#include "core/base/files/unique_fd.h"
#include "core/base/json/json.h"
#include "core/base/json/json_text.h"
#include "core/base/process/host_name.h"
#include "core/job/resources/allocation.h"

namespace estrain::run_directory {
namespace {

constexpr std::chrono::milliseconds kBetweenLooks{100};

// Opens the file anew each time: a shared file system asks its server only at an open.
std::optional<timespec> time_of(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  struct stat status {};
  if (!fd || ::fstat(fd.get(), &status) != 0) return std::nullopt;
  return status.st_mtim;
}

}  // namespace

RunOwner RunOwner::this_process() {
  return {::getpid(), host_name(), resources::current_resources().slurm_job.value_or("")};
}

std::optional<RunOwner> RunOwner::from_text(const std::string& text) {
  const Json json = parse_json_if_sound(text);
  if (!json.is_object()) return std::nullopt;
  try {
    return RunOwner{json.at("pid"), json.at("host"), json.at("slurm_job")};
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

std::string RunOwner::to_text() const {
  const Json json = {{"pid", pid}, {"host", host}, {"slurm_job", slurm_job}};
  return json_text(json) + "\n";
}

bool RunOwner::is_here() const { return host == host_name(); }

bool RunOwner::is_this_process() const { return is_here() && pid == ::getpid(); }

bool RunOwner::has_ended() const { return is_here() && pid > 0 && ::kill(pid, 0) != 0 && errno == ESRCH; }

std::string RunOwner::name() const {
  return fmt::format("process {}{}", pid, is_here() ? "" : fmt::format(" on {}", host));
}

std::string RunOwner::reach() const {
  return slurm_job.empty() ? "ssh " + host : "srun --overlap --jobid=" + slurm_job;
}

std::optional<double> seconds_since_touch(const std::string& path) {
  const std::optional<timespec> touched = time_of(path);
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  if (!touched) return std::nullopt;
  return static_cast<double>(now.tv_sec - touched->tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec - touched->tv_nsec);
}

bool is_touched_within(const std::string& path, Nanoseconds patience) {
  const auto before = time_of(path);
  const MonotonicTime deadline = MonotonicClock::now() + patience;
  while (before && MonotonicClock::now() < deadline) {
    std::this_thread::sleep_for(kBetweenLooks);
    const auto now = time_of(path);
    if (now && (now->tv_sec != before->tv_sec || now->tv_nsec != before->tv_nsec)) return true;
  }
  return false;
}

}  // namespace estrain::run_directory
