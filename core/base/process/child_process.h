#pragma once
// A child process started by fork and exec, watched through a pidfd.
//
// Start children from the main thread only: PR_SET_PDEATHSIG is tied to the thread that forked, and a child forked from
// another thread would be killed when the parent re-execs.

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/files/unique_fd.h"

namespace estrain {

// For the first actions of a new child, which executes a program or is a copy (fork_server.h).
struct ChildSetup {
  pid_t parent = 0;
  bool dies_with_parent = true;  // SIGKILL when the parent's thread ends
  std::span<const int> ignored_signals;
  int output = -1;  // becomes stdout and stderr; -1: both stay
  bool in_background = false;
};

// Makes only async-signal-safe calls. Exits with 127 if the parent has ended already and the child must end with it.
void set_up_child(const ChildSetup& setup);

struct ChildOptions {
  std::vector<std::string> arguments;  // [0] is the program
  // Executes the file of the running program, even if the path has another file by now; [0] is only the name.
  bool same_program = false;
  // Added to the parent's environment; replaces existing values; an empty value removes the variable.
  std::vector<std::pair<std::string, std::string>> environment;
  std::vector<int> inherited;        // descriptors that stay open under their own numbers
  std::string output;                // file to append stdout and stderr to (own_file.h); empty: shared
  int output_descriptor = -1;        // if `output` is empty: an open file for both
  bool dies_with_parent = true;      // SIGKILL when the parent thread ends
  std::vector<int> ignored_signals;  // ignored from the child's first instruction on
  // The child and its children leave processors and disks to other processes: SCHED_IDLE, nice 19, and the idle I/O
  // class. Copies of a fork server have the classes of the server.
  bool in_background = false;
};

// Returns the file `output`, open for a child; nothing if `output` is empty. Throws Fault::io.
UniqueFd open_output(const ChildOptions& options);

// The end of a child.
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
  // Throws Fault::io if fork or exec fails (including an exec error in the child).
  static ChildProcess start(const ChildOptions& options);
  // Watches an existing child of this process, for example after a re-exec.
  static ChildProcess adopt(pid_t pid);
  // Watches any process, child or not. Returns nothing if the process does not exist. Throws Fault::io.
  static std::optional<ChildProcess> find(pid_t pid);

  pid_t pid() const { return pid_; }
  int descriptor() const { return pidfd_.get(); }  // readable once the child has ended
  bool running() const { return pid_ > 0; }

  void signal(int number) const;
  // Blocks until the child has ended, and reaps the child; `running()` is then false.
  ChildEnd wait();
  // Like wait, for at most `limit`; false: still running.
  bool wait_for(std::chrono::milliseconds limit, ChildEnd* end = nullptr);

 private:
  pid_t pid_ = -1;
  UniqueFd pidfd_;
};

std::string signal_name(int number);  // "SIGKILL"
std::string own_executable();         // absolute path of the running program
// For exec only: the file of the running program, even if the path has another file by now.
inline constexpr const char* running_program = "/proc/self/exe";
std::map<std::string, std::string, std::less<>> own_environment();
std::optional<std::string> environment_variable(const char* name);  // nothing: not set

// Continues as another program, or as a new start of this program, under the same process id.
// `program`: a path, not looked up in PATH. `arguments`: the new argv, the program's name first. The environment and
// descriptors without close-on-exec stay; destructors do not run. Throws Fault::io if the program cannot be executed.
[[noreturn]] void replace_program(const std::string& program, const std::vector<std::string>& arguments);

}  // namespace estrain
