#pragma once

#include <doctest/doctest.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include <csignal>
#include <string>
#include <utility>

namespace estrain::testing {

// Stops a child when it is about to open a file for the first time, until the object is destroyed. Construct it before
// that moment.
class StoppedAtOpen {
 public:
  StoppedAtOpen(pid_t child, std::string path) : child_(child), path_(std::move(path)) {
    REQUIRE(::ptrace(PTRACE_SEIZE, child_, nullptr, long{PTRACE_O_TRACESYSGOOD}) == 0);
    REQUIRE(::ptrace(PTRACE_INTERRUPT, child_, nullptr, nullptr) == 0);
  }
  ~StoppedAtOpen() { ::ptrace(PTRACE_DETACH, child_, nullptr, nullptr); }
  StoppedAtOpen(const StoppedAtOpen&) = delete;

  // Waits until the child stops before that file.
  void reach() {
    for (;;) {
      int status = 0;
      REQUIRE(::waitpid(child_, &status, __WALL) == child_);
      REQUIRE_MESSAGE(WIFSTOPPED(status), "it ended before it opened ", path_);
      const bool of_call = WSTOPSIG(status) == (SIGTRAP | 0x80);
      if (of_call && opens()) return;
      const bool by_signal = !of_call && status >> 16 == 0 && WSTOPSIG(status) != SIGTRAP;
      REQUIRE(::ptrace(PTRACE_SYSCALL, child_, nullptr, long{by_signal ? WSTOPSIG(status) : 0}) == 0);
    }
  }

 private:
  bool opens() const {
    __ptrace_syscall_info call{};
    REQUIRE(::ptrace(PTRACE_GET_SYSCALL_INFO, child_, sizeof call, &call) > 0);
    return call.op == PTRACE_SYSCALL_INFO_ENTRY && call.entry.nr == SYS_openat && text_at(call.entry.args[1]) == path_;
  }

  // Reads the bytes of the path and the terminating zero.
  std::string text_at(uint64_t address) const {
    std::string text(path_.size() + 1, '?');
    const iovec here{text.data(), text.size()}, there{reinterpret_cast<void*>(address), text.size()};
    if (::process_vm_readv(child_, &here, 1, &there, 1, 0) != static_cast<ssize_t>(text.size())) return "";
    if (text.back() != '\0') return "";
    text.pop_back();
    return text;
  }

  pid_t child_;
  std::string path_;
};

}  // namespace estrain::testing
