#pragma once
// A child process started by fork and exec, watched through a pidfd.
//
// Start children from the main thread only: PR_SET_PDEATHSIG is tied to the thread that forked, and a child forked from
// another thread would die when the parent re-execs.

#include <sys/types.h>

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/base/unique_fd.h"

namespace estrain {

struct ChildOptions {
  std::vector<std::string> arguments;  // [0] is the program
  // Executes the file of the running program, also where another one has taken its place since; [0] only names it.
  bool same_program = false;
  // Added to the parent's, or in the place of a value there; an empty one takes the name away.
  std::vector<std::pair<std::string, std::string>> environment;
  std::vector<int> inherited;        // descriptors that stay open under their own numbers
  std::string output;                // file that stdout and stderr are appended to (own_file.h); empty: shared
  int output_descriptor = -1;        // where there is no `output`: an open file for both
  bool dies_with_parent = true;      // SIGKILL when the parent thread ends
  std::vector<int> ignored_signals;  // from before its first instruction on
};

// How a child ended.
struct ChildEnd {
  bool signaled = false;
  int code = 0;                   // exit status, or the signal's number
  int64_t peak_memory_bytes = 0;  // largest resident set

  std::string text() const;  // "exit status 1", "SIGKILL (signal 9)"
};

class ChildProcess {
 public:
  ChildProcess() = default;
  ChildProcess(ChildProcess&& other) noexcept : pid_(std::exchange(other.pid_, -1)), pidfd_(std::move(other.pidfd_)) {}
  ChildProcess& operator=(ChildProcess&& other) noexcept {
    pid_ = std::exchange(other.pid_, -1);
    pidfd_ = std::move(other.pidfd_);
    return *this;
  }
  // Throws Fault::io where fork or exec fails (the child's own exec error included).
  static ChildProcess start(const ChildOptions& options);
  // Takes up a running child of this process, as after a re-exec.
  static ChildProcess adopt(pid_t pid);

  pid_t pid() const { return pid_; }
  int descriptor() const { return pidfd_.get(); }  // readable once the child has ended
  bool running() const { return pid_ > 0; }

  void signal(int number) const;
  // Reaps; `running()` is false afterwards. Blocks until the child has ended.
  ChildEnd wait();
  // As wait, for at most `milliseconds`; false: still running.
  bool wait_for(int milliseconds, ChildEnd* end = nullptr);

 private:
  pid_t pid_ = -1;
  UniqueFd pidfd_;
};

std::string signal_name(int number);  // "SIGKILL"
std::string own_executable();         // absolute path of the running program
// Leads to the file of the running program, also where another one has taken its place since: for exec alone.
inline constexpr const char* running_program = "/proc/self/exe";
std::map<std::string, std::string, std::less<>> own_environment();

}  // namespace estrain
