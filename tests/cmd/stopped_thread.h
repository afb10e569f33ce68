#pragma once

#include <doctest/doctest.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

namespace estrain::testing {

// Keeps a thread of a child from running, until the object goes; not as SIGSTOP does, which the launcher looks for.
class StoppedThread {
 public:
  explicit StoppedThread(pid_t thread) : thread_(thread) {
    REQUIRE(::ptrace(PTRACE_SEIZE, thread_, nullptr, nullptr) == 0);
    REQUIRE(::ptrace(PTRACE_INTERRUPT, thread_, nullptr, nullptr) == 0);
    REQUIRE(::waitpid(thread_, nullptr, __WALL) == thread_);
  }
  ~StoppedThread() { ::ptrace(PTRACE_DETACH, thread_, nullptr, nullptr); }
  StoppedThread(const StoppedThread&) = delete;

 private:
  pid_t thread_;
};

}  // namespace estrain::testing
