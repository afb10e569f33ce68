#include "core/data/files/mapped_files.h"

#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>

#include "core/base/error.h"

namespace estrain::data {
namespace {

struct Mapping {
  size_t size;
  std::string path;
};

// Never destroyed: threads may read data while the process ends.
struct Mappings {
  std::mutex mutex;
  std::map<uintptr_t, Mapping> by_address;
};

Mappings& mappings() {
  static auto* const all = new Mappings;
  return *all;
}

void write_text(std::string_view text) { (void)!::write(STDERR_FILENO, text.data(), text.size()); }

// Runs in the thread that read the data, and this thread does not hold the mutex. Another thread may be stopped while
// holding the mutex: the handler does not wait for ever.
void on_bus_error(int number, siginfo_t* info, void*) {
  constexpr int kTries = 1000;
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  Mappings& known = mappings();
  std::unique_lock lock(known.mutex, std::defer_lock);
  for (int i = 0; i < kTries && !lock.try_lock(); ++i) ::usleep(100);
  if (lock) {
    const auto after = known.by_address.upper_bound(address);
    const auto at = after == known.by_address.begin() ? known.by_address.end() : std::prev(after);
    if (at != known.by_address.end() && address - at->first < at->second.size) {
      write_text("data file ");
      write_text(at->second.path);
      write_text(" became shorter while it was in use");
      write_text(kCauseMark);
      write_text("data_file_shortened");
      write_text(kCauseMarkEnd);
      write_text("\n");
    }
  }
  ::signal(number, SIG_DFL);  // the read is repeated, and ends the process
}

}  // namespace

void note_mapping(const void* address, size_t size, const std::string& path) {
  Mappings& known = mappings();
  const std::lock_guard lock(known.mutex);
  known.by_address[reinterpret_cast<uintptr_t>(address)] = {size, path};
}

void forget_mapping(const void* address) {
  Mappings& known = mappings();
  const std::lock_guard lock(known.mutex);
  known.by_address.erase(reinterpret_cast<uintptr_t>(address));
}

void release_pages(std::span<const std::byte> part) {
  if (part.empty()) return;
  const auto page_bytes = static_cast<uintptr_t>(::getpagesize());
  const auto first = reinterpret_cast<uintptr_t>(part.data());
  const uintptr_t page = first / page_bytes * page_bytes;
  ::madvise(reinterpret_cast<void*>(page), first + part.size() - page, MADV_DONTNEED);
}

void name_shortened_files() {
  mappings();
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

}  // namespace estrain::data
