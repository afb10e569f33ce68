#include "core/run/launch/preflight/machine.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "core/base/files/files.h"
#include "core/base/process/child_process.h"
#include "core/base/process/memory_use.h"
#include "core/job/resources/allocation.h"
#include "core/state/run_directory/run_directory.h"

namespace estrain::launch {
namespace {

namespace fs = std::filesystem;

template <typename Visit>
void for_each_entry(const std::string& folder, Visit visit) {
  std::error_code failure;
  for (fs::directory_iterator at(folder, failure), end; !failure && at != end; at.increment(failure)) visit(at->path());
}

bool is_folder(const std::string& path) {
  std::error_code failure;
  return fs::is_directory(path, failure);
}

// Returns the rest of the line that begins with `name`, a colon and white space; empty without such a line.
std::string word_behind(const std::string& text, std::string_view name) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(name) || line.size() <= name.size() || line[name.size()] != ':') continue;
    const size_t begin = line.find_first_not_of(" \t", name.size() + 1);
    return begin == line.npos ? "" : line.substr(begin, line.find_first_of(" \t", begin) - begin);
  }
  return "";
}

uint64_t number(const std::string& text, int base = 10) {
  uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value, base);
  return value;
}

std::optional<uint64_t> soft_limit(__rlimit_resource resource) {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return limit.rlim_cur;
}

// Tells whether RLIMIT_NPROC has no effect on this process: root, CAP_SYS_ADMIN or CAP_SYS_RESOURCE.
bool may_start_any_number() {
  constexpr uint64_t capabilities = uint64_t{1} << 21 | uint64_t{1} << 24;
  return ::getuid() == 0 ||
         (number(word_behind(text_if_readable("/proc/self/status"), "CapEff"), 16) & capabilities) != 0;
}

// Threads of all processes of this user.
uint64_t tasks_of_user() {
  const std::string user = std::to_string(::getuid());
  uint64_t tasks = 0;
  for_each_entry("/proc", [&](const fs::path& process) {
    if (process.filename().string().find_first_not_of("0123456789") != std::string::npos) return;
    const std::string status = text_if_readable(process / "status");
    if (word_behind(status, "Uid") == user) tasks += number(word_behind(status, "Threads"));
  });
  return tasks;
}

ProcessLimits process_limits() {
  ProcessLimits limits{soft_limit(RLIMIT_NOFILE), soft_limit(RLIMIT_FSIZE), soft_limit(RLIMIT_AS), std::nullopt};
  const std::optional<uint64_t> tasks = soft_limit(RLIMIT_NPROC);
  if (tasks && !may_start_any_number()) limits.tasks_left = *tasks - std::min(*tasks, tasks_of_user());
  return limits;
}

uint64_t count_open_files() {
  uint64_t files = 0;
  for_each_entry("/proc/self/fd", [&](const fs::path&) { ++files; });
  return files == 0 ? 3 : files - 1;  // less the folder's own
}

void read_memory(Machine& machine) {
  const std::string info = text_if_readable("/proc/meminfo");
  machine.memory_available = proc_bytes(info, "MemAvailable").value_or(UINT64_MAX);
  machine.swap_free = proc_bytes(info, "SwapFree").value_or(0);
  const auto limit = proc_bytes(info, "CommitLimit"), promised = proc_bytes(info, "Committed_AS");
  const bool strict = number(text_if_readable("/proc/sys/vm/overcommit_memory")) == 2;
  if (strict && limit && promised) machine.commit_left = *limit - std::min(*limit, *promised);
  machine.cgroup = resources::cgroup_room();
}

void read_allocation_of(Machine& machine) {
  const resources::Allocation allocation = resources::current_resources();
  machine.cores = allocation.cores;
  machine.cores_from = allocation.cores_from;
  if (allocation.memory_bytes) {
    machine.memory_granted = static_cast<uint64_t>(*allocation.memory_bytes);
    machine.memory_granted_by = allocation.memory_from;
  }
}

std::string try_shared_memory() {
  const UniqueFd fd(::memfd_create("estrain-check", MFD_CLOEXEC));
  return fd ? "" : std::strerror(errno);
}

// Makes a file without a name; where the file system cannot, makes a file and removes the file at once.
std::string try_to_make_file(const std::string& folder) {
  UniqueFd fd(::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600));
  if (fd) return "";
  if (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT && errno != EINVAL) return std::strerror(errno);
  std::string name = folder + "/.estrain-check-XXXXXX";
  fd.reset(::mkostemp(name.data(), O_CLOEXEC));
  if (!fd) return std::strerror(errno);
  ::unlink(name.c_str());
  return "";
}

// Returns the path, or the nearest existing path above it.
fs::path nearest_existing(fs::path path) {
  struct stat status {};
  while (::stat(path.c_str(), &status) != 0 && path.has_relative_path()) path = path.parent_path();
  return path;
}

std::string refusal_of(const run_directory::RunDirectory& run, const std::string& folder) {
  if (!is_folder(folder)) return fmt::format("{} is not a folder", folder);
  if (const std::string refusal = try_to_make_file(folder); !refusal.empty())
    return fmt::format("no file can be made in {}: {}", folder, refusal);
  if (is_folder(run.checkpoints())) {
    if (const std::string refusal = try_to_make_file(run.checkpoints()); !refusal.empty())
      return fmt::format("no file can be made in {}: {}", run.checkpoints(), refusal);
  }
  for (const std::string& file : {run.lock_file(), run.spec(), run.events()}) {
    if (::access(file.c_str(), F_OK) == 0 && ::access(file.c_str(), W_OK) != 0)
      return fmt::format("{} cannot be written: {}", file, std::strerror(errno));
  }
  return "";
}

void read_free_space(RunPlace& place) {
  struct statvfs space {};
  if (::statvfs(place.folder.c_str(), &space) != 0 || space.f_blocks == 0) return;
  const bool root = ::geteuid() == 0;  // the file system's reserve is for root
  place.free_bytes = uint64_t{root ? space.f_bfree : space.f_bavail} * space.f_frsize;
  if (space.f_files > 0) place.free_files = root ? space.f_ffree : space.f_favail;
}

bool has_run(const run_directory::RunDirectory& run) {
  try {
    return run.has_run();
  } catch (const Error&) {  // `refusal` tells why the folder cannot be looked at
    return false;
  }
}

RunPlace place_of(const std::string& run_directory) {
  std::error_code failure;
  const run_directory::RunDirectory run(fs::absolute(run_directory, failure).lexically_normal().string());
  RunPlace place;
  place.folder = nearest_existing(run.path()).string();
  place.refusal = refusal_of(run, place.folder);
  place.has_run = has_run(run);
  read_free_space(place);
  for_each_entry(run.checkpoints(), [&](const fs::path& file) {
    struct stat status {};
    if (::lstat(file.c_str(), &status) == 0 && S_ISREG(status.st_mode))
      place.checkpoint_bytes += static_cast<uint64_t>(status.st_blocks) * 512;
  });
  return place;
}

void read_clock(Machine& machine, const std::string& run_directory, const std::vector<std::string>& files) {
  using std::chrono::system_clock;
  machine.now = system_clock::to_time_t(system_clock::now());
  const auto look = [&](const std::string& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0 || status.st_mtime <= machine.newest_file) return;
    machine.newest_file = status.st_mtime;
    machine.newest_path = path;
  };
  look(own_executable());
  for (const std::string& file : files) look(file);
  for_each_entry(run_directory, [&](const fs::path& file) { look(file); });
}

}  // namespace

Machine Machine::here(const std::string& run_directory, const std::vector<std::string>& files) {
  Machine machine;
  read_memory(machine);
  read_allocation_of(machine);
  machine.limits = process_limits();
  machine.open_files = count_open_files();
  machine.shared_memory_refusal = try_shared_memory();
  machine.run = place_of(run_directory);
  read_clock(machine, run_directory, files);
  return machine;
}

AvailableMemory available_memory(const Machine& machine) {
  AvailableMemory least{machine.memory_available, "available on this machine", machine.swap_free > 0};
  const auto lower = [&](std::optional<uint64_t> bytes, std::string from) {
    if (bytes && *bytes < least.bytes) least = {*bytes, std::move(from)};
  };
  lower(machine.cgroup.memory_bytes, "left by the cgroup's limit");
  lower(machine.commit_left, "that the kernel still promises (vm.overcommit_memory = 2)");
  lower(machine.memory_granted, fmt::format("granted ({})", machine.memory_granted_by));
  return least;
}

}  // namespace estrain::launch
