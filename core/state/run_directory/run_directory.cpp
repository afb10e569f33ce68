#include "core/state/run_directory/run_directory.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <thread>

#include "core/base/clock.h"
#include "core/base/files/file_lock.h"
#include "core/base/files/files.h"
#include "core/base/files/long_files.h"
#include "core/base/files/own_file.h"
#include "core/base/json/json_text.h"
#include "core/job/spec/parsing/parse.h"
#include "core/state/checkpoint/directory.h"
#include "core/state/record/scribe.h"

namespace estrain::run_directory {

bool RunDirectory::has_run() const {
  std::error_code failure;
  const bool found = std::filesystem::exists(spec(), failure);
  if (failure) throw Error::make(Fault::usage, "{}: {}", path(), failure.message());
  return found || (std::filesystem::is_directory(checkpoints(), failure) &&
                   !checkpoint::CheckpointDirectory(checkpoints()).steps().empty());
}

std::optional<RunOwner> RunDirectory::owner() const { return RunOwner::from_text(text_if_readable(lock_file())); }

std::optional<DistantOwner> RunDirectory::owner_elsewhere() const {
  const std::optional<RunOwner> one = owner();
  const std::optional<double> silent = seconds_since_touch(lock_file());
  if (!one || one->is_here() || !silent || *silent >= kSilentSeconds) return std::nullopt;
  return DistantOwner{*one, *silent};
}

namespace {

// Two touches, and the delay of a shared file system.
constexpr std::chrono::seconds kLook = 35s;

Error at_work(const std::string& run, const std::string& by) {
  const std::string who = by.empty() ? "" : fmt::format(" ({})", by);
  return Error::make(Fault::usage, "{}: another launcher is at work on this run directory{}", run, who)
      .advise("wait for it, stop it with `estrain stop`, or give this run a directory of its own with --run");
}

// Where hosts do not see each other's locks, an owner on another host may be at work though this host has the lock.
void require_gone(const std::string& run, const RunOwner& owner, const std::string& lock_path) {
  if (owner.is_here() || seconds_since_touch(lock_path).value_or(0) > 2 * kSilentSeconds) return;
  fmt::print(stderr, "{}: {} was at work here a moment ago: looking for {} s whether it still is\n", run, owner.name(),
             kLook.count());
  if (is_touched_within(lock_path, kLook)) throw at_work(run, owner.name());
}

// The process that writes a run's files, if it is on this host.
struct Scribe {
  pid_t pid = 0;
  bool waits_for_room = false;
};

// `process`: the folder of a process in /proc. The process may be in a container, with other paths.
bool is_scribe_of(const std::filesystem::path& process, const std::string& run) {
  const std::string command_line = text_if_readable(process / "cmdline"), option("\0scribe\0--run\0", 14);
  const size_t at = command_line.find(option);
  if (at == command_line.npos) return false;
  const std::string named = command_line.c_str() + at + option.size();
  std::error_code gone;
  return std::filesystem::equivalent(process.string() + (named.starts_with('/') ? "/root" : "/cwd/") + named, run,
                                     gone);
}

std::optional<Scribe> find_scribe(const std::string& run) {
  std::error_code failure;
  for (std::filesystem::directory_iterator at("/proc", failure), end; !failure && at != end; at.increment(failure)) {
    const std::string name = at->path().filename().string();
    if (name.find_first_not_of("0123456789") != name.npos) continue;
    if (!is_scribe_of(at->path(), run)) continue;
    return Scribe{std::stoi(name), text_if_readable(at->path() / "comm") == record::kWaitingScribe + std::string("\n")};
  }
  return std::nullopt;
}

std::string holder_of_run(const std::optional<RunOwner>& owner, const std::optional<Scribe>& scribe) {
  if (scribe) return fmt::format("its scribe is process {}", scribe->pid);
  return owner ? owner->name() : "";
}

// Tells the user why nothing happens while the last launch's scribe holds the lock: at once, when the reason changes,
// and once a minute while the scribe waits for room on the disk, which the user has to make.
class WaitForScribe {
 public:
  explicit WaitForScribe(std::string run) : run_(std::move(run)) {}

  void look(int64_t now_ns) {
    if (now_ns < next_look_ns_) return;
    next_look_ns_ = now_ns + kBetweenLooksNs;
    const std::optional<Scribe> scribe = find_scribe(run_);
    const bool waits = scribe && scribe->waits_for_room;
    if (waits && (!said_waits_.value_or(false) || now_ns >= next_word_ns_)) {
      fmt::print(stderr,
                 "{}: the last launch's scribe (process {}) holds a state that it cannot write, and waits for room on "
                 "the disk: free some, and this goes on by itself (see {}; to give that state up: kill -9 "
                 "{})\n",
                 run_, scribe->pid, RunFiles(run_).scribe_log(), scribe->pid);
      next_word_ns_ = now_ns + kBetweenWordsNs;
    } else if (!waits && said_waits_.value_or(true)) {
      fmt::print(stderr, "{}: the last launcher's scribe is still writing: waiting for it\n", run_);
    }
    said_waits_ = waits;
  }

 private:
  static constexpr int64_t kBetweenLooksNs = 500'000'000, kBetweenWordsNs = 60'000'000'000;

  std::string run_;
  int64_t next_look_ns_ = 0, next_word_ns_ = 0;
  std::optional<bool> said_waits_;
};

}  // namespace

// Looks at all files before the job begins: a file which no run writes to would else be found during the run.
void RunDirectory::require_own_files() const {
  for (const std::string& file :
       {changes(), events(), algorithms(), metrics(), fingerprints(), scribe_log(), open_metrics()})
    require_own_file(file);
  require_own_folder(checkpoints());
  require_own_folder(tensorboard());
}

UniqueFd RunDirectory::lock(Nanoseconds patience) const {
  make_folders(path());
  const MonotonicTime deadline = MonotonicClock::now() + patience;
  std::optional<WaitForScribe> wait;
  for (UniqueFd fd;;) {
    const bool locked = lock_file_at(lock_file(), fd);
    const std::optional<Scribe> scribe = locked ? find_scribe(path()) : std::nullopt;
    if (locked && !scribe) {
      require_own_files();
      watch_owner();
      own(fd);
      return fd;
    }
    if (locked) fd.reset();  // the launcher at work may make its lock anew
    const std::optional<RunOwner> other = owner();
    if (patience > 0s && other && other->has_ended()) {
      if (!wait) wait.emplace(path());
      wait->look(monotonic_ns());
    } else if (MonotonicClock::now() >= deadline) {
      throw at_work(path(), holder_of_run(other, scribe));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(locked ? 500 : 20));
  }
}

std::optional<UniqueFd> RunDirectory::try_lock() const {
  UniqueFd fd;
  return lock_file_at(lock_file(), fd) ? std::optional(std::move(fd)) : std::nullopt;
}

bool RunDirectory::has_scribe() const { return find_scribe(path()).has_value(); }

bool RunDirectory::keep_lock(int lock) const {
  std::error_code failure;
  if (is_file_at(lock, lock_file()) || !std::filesystem::is_directory(path(), failure)) return true;
  const std::optional<UniqueFd> anew = try_lock();
  // An owner of the same name who holds the lock is in another container.
  if (const auto other = owner(); other && !(anew && other->is_this_process())) return false;
  if (!anew) return true;  // a process that has just come looks whether this launcher is at work
  own(*anew);
  if (::dup3(anew->get(), lock, O_CLOEXEC) < 0) throw system_error("cannot lock " + lock_file(), errno);
  fmt::print(stderr, "warning: {} was deleted, and is made anew: it keeps other launchers out\n", lock_file());
  return true;
}

void RunDirectory::watch_owner() const {
  if (const std::optional<RunOwner> before = owner()) require_gone(path(), *before, lock_file());
}

// Writes in place: a full disk does not prevent this, and a process that cannot write leaves the owner before on
// record. Spaces cover the rest of a longer text until the file is cut, so that a reader sees an owner at any moment.
void RunDirectory::own(const UniqueFd& lock) const {
  std::string text = RunOwner::this_process().to_text();
  const size_t length = text.size();
  text.resize(std::max<size_t>(length, size_of_file(lock_file())), ' ');
  if (::pwrite(lock.get(), text.data(), text.size(), 0) != std::ssize(text) ||
      ::ftruncate(lock.get(), static_cast<off_t>(length)) != 0)
    throw system_error("cannot write " + lock_file(), errno);
}

void RunDirectory::disown(int lock) const {
  if (::ftruncate(lock, 0) != 0) fmt::print(stderr, "warning: {}: {}\n", lock_file(), std::strerror(errno));
}

void RunDirectory::write_spec(const spec::JobSpec& job) const { write_file_atomically(spec(), spec::to_toml(job)); }

spec::JobSpec RunDirectory::read_spec() const { return spec::parse_regular_file(spec()); }

void RunDirectory::log_event(std::string_view name, const Json& details) const {
  Json line = {{"time", utc_timestamp()}, {"event", name}};
  line.update(details);
  try {
    append_line_among_others(events(), json_text(line));
  } catch (const Error& error) {
    fmt::print(stderr, "warning: an event is not recorded: {}\n", error.message());
  }
}

}  // namespace estrain::run_directory
