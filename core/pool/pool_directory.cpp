#include "core/pool/pool_directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>

#include "core/base/error.h"
#include "core/base/files/file_lock.h"
#include "core/base/files/files.h"
#include "core/base/files/own_file.h"
#include "core/base/process/host_name.h"
#include "core/pool/hosts/meeting.h"

namespace estrain::pool {
namespace {

constexpr unsigned kModeOfLock = 0600;

// For messages: on a full disk, the file names nobody.
void write_owner(const UniqueFd& lock) {
  const std::string owner = std::to_string(::getpid());
  if (::ftruncate(lock.get(), 0) == 0) [[maybe_unused]]
    const ssize_t written = ::pwrite(lock.get(), owner.data(), owner.size(), 0);
}

}  // namespace

bool PoolDirectory::has_pool() const {
  std::error_code failure;
  return std::filesystem::exists(database(), failure);
}

uint32_t PoolDirectory::owner() const {
  struct stat folder {};
  if (::stat(path_.c_str(), &folder) != 0) throw system_error("cannot look at " + path_, errno);
  return folder.st_uid;
}

std::vector<dispatch::JobId> PoolDirectory::jobs() const {
  std::vector<dispatch::JobId> numbers;
  std::error_code failure;
  for (std::filesystem::directory_iterator at(path_ + "/jobs", failure), end; !failure && at != end;
       at.increment(failure)) {
    const std::string name = at->path().filename().string();
    dispatch::JobId number = 0;
    const auto [rest, wrong] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (wrong == std::errc() && rest == name.data() + name.size() && number > 0) numbers.push_back(number);
  }
  std::ranges::sort(numbers);
  return numbers;
}

void PoolDirectory::require_pool() const {
  if (!has_pool() && !jobs().empty()) {
    throw Error::make(Fault::usage, "{}: the queue of this pool is lost: there are folders of jobs, and no pool.db",
                      path_)
        .advise("put pool.db back; or begin a new queue beside them: estrain pool serve " + path_ + " --devices LIST");
  }
  if (!has_pool()) {
    throw Error::make(Fault::usage, "{}: there is no pool", path_)
        .advise("make one: estrain pool serve " + path_ + " --devices LIST");
  }
  const auto sign = MeetingFolder(path_).daemon();
  if (!sign || sign->machine == host_name()) return;
  throw Error::make(Fault::usage, "{}: the daemon of this pool is, or was last, on another host, {}", path_,
                    sign->machine)
      .advise("give the command there; or serve the pool here, if that host is gone: estrain pool serve " + path_);
}

UniqueFd PoolDirectory::lock() const {
  make_folders(path_ + "/jobs");
  require_own_folder(path_);
  UniqueFd lock;
  if (!lock_file_at(lock_file(), lock, kModeOfLock)) {
    const std::string owner = text_if_readable(lock_file());
    throw Error::make(Fault::usage, "{}: another daemon serves this pool already{}", path_,
                      owner.empty() ? "" : ": process " + owner)
        .advise("ask the daemon: estrain pool status " + path_);
  }
  write_owner(lock);
  return lock;
}

void PoolDirectory::keep_lock(UniqueFd& lock) const {
  if (is_file_at(lock.get(), lock_file())) return;
  UniqueFd anew;
  bool is_kept = false;
  try {
    is_kept = lock_file_at(lock_file(), anew, kModeOfLock);
  } catch (const Error&) {  // a full disk, or one out of reach: the next call tries again
    return;
  }
  if (!is_kept)
    throw Error::make(Fault::usage, "{}: its file `lock` was deleted, and another daemon serves the pool", path_)
        .advise("this daemon has ended, and jobs continue; delete no file of a pool that is served");
  lock = std::move(anew);
  write_owner(lock);
  fmt::print(stderr, "warning: {} was deleted, and is made anew: it keeps other daemons out\n", lock_file());
}

}  // namespace estrain::pool
