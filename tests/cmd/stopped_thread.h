#pragma once

#include <doctest/doctest.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <csignal>

namespace estrain::testing {

// Stops a thread of a child until the object is destroyed; without SIGSTOP, which the launcher detects.
class StoppedThread {
 public:
  explicit StoppedThread(pid_t thread) : thread_(thread) {
    REQUIRE(::ptrace(PTRACE_SEIZE, thread_, nullptr, nullptr) == 0);
    REQUIRE(::ptrace(PTRACE_INTERRUPT, thread_, nullptr, nullptr) == 0);
    REQUIRE(::waitpid(thread_, nullptr, __WALL) == thread_);
  }
  ~StoppedThread() {
    if (thread_ > 0) ::ptrace(PTRACE_DETACH, thread_, nullptr, nullptr);
  }
  StoppedThread(const StoppedThread&) = delete;

  // For the first thread of a process: waits until the process is killed. The parent learns of it no sooner.
  void wait_for_kill() {
    int status = 0;
    do {
      REQUIRE(::waitpid(thread_, &status, __WALL) == thread_);
    } while (!WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == SIGKILL);
    thread_ = -1;
  }

 private:
  pid_t thread_;
};

}  // namespace estrain::testing
