#include "tests/simulated_gpu/memory.h"

#include <execinfo.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>

namespace estrain::simulated {
namespace {

struct sigaction before;

// A holder of a lock needed here must not access the GPU's memory.
void tell_of_host(int, siginfo_t* info, void*) {
  if (!DeviceMemory::of_process().contain(info->si_addr)) {
    ::sigaction(SIGSEGV, &before, nullptr);  // and the fault is raised again
    return;
  }
  std::array<void*, 64> calls{};
  ::backtrace_symbols_fd(calls.data(), ::backtrace(calls.data(), static_cast<int>(calls.size())), STDERR_FILENO);
  std::fprintf(stderr, "simulated GPU: the host touches the GPU's memory, at %p\n", info->si_addr);
  std::abort();
}

int access_of(bool open) { return open ? PROT_READ | PROT_WRITE : PROT_NONE; }

}  // namespace

void Pieces::add(void* begin, size_t bytes) {
  const std::lock_guard lock(mutex_);
  pieces_[static_cast<std::byte*>(begin)] = bytes;
  bytes_ += bytes;
}

size_t Pieces::remove(void* begin) {
  const std::lock_guard lock(mutex_);
  const auto piece = pieces_.find(static_cast<std::byte*>(begin));
  if (piece == pieces_.end()) return 0;
  const size_t bytes = piece->second;
  bytes_ -= bytes;
  pieces_.erase(piece);
  return bytes;
}

bool Pieces::contain(const void* place) {
  const std::lock_guard lock(mutex_);
  auto piece = pieces_.upper_bound(static_cast<std::byte*>(const_cast<void*>(place)));
  if (piece == pieces_.begin()) return false;
  --piece;
  return place < piece->first + piece->second;
}

size_t Pieces::bytes() {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

DeviceMemory& DeviceMemory::of_process() {
  static auto* const memory = new DeviceMemory();
  return *memory;
}

DeviceMemory::DeviceMemory() {
  void* call = nullptr;
  ::backtrace(&call, 1);  // loads its library now, which a handler cannot
  struct sigaction action = {};
  action.sa_sigaction = tell_of_host;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGSEGV, &action, &before);
}

void DeviceMemory::add(void* begin, size_t bytes) {
  Pieces::add(begin, bytes);
  const std::lock_guard lock(mutex_);
  ::mprotect(begin, bytes, access_of(is_open_));
}

void DeviceMemory::protect(bool open) {
  const std::lock_guard lock(mutex_);
  if (open == is_open_) return;
  is_open_ = open;
  for (const auto& [begin, bytes] : pieces_) ::mprotect(begin, bytes, access_of(open));
}

}  // namespace estrain::simulated
