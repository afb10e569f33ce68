#include "core/base/process/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "core/base/error.h"
#include "core/base/files/own_file.h"
#include "core/base/files/poll_set.h"

extern char** environ;

namespace estrain {
namespace {

// Everything the child needs, prepared before fork: only async-signal-safe calls are allowed between fork and exec.
struct ExecPlan {
  std::vector<char*> arguments;
  std::vector<std::string> environment_text;
  std::vector<char*> environment;
};

ExecPlan plan_exec(const ChildOptions& options) {
  ExecPlan plan;
  for (const std::string& argument : options.arguments) plan.arguments.push_back(const_cast<char*>(argument.c_str()));
  plan.arguments.push_back(nullptr);
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const bool replaced = std::ranges::any_of(options.environment, [&](const auto& pair) {
      return text.starts_with(pair.first) && text.substr(pair.first.size()).starts_with('=');
    });
    if (!replaced) plan.environment_text.emplace_back(text);
  }
  for (const auto& [name, value] : options.environment)
    if (!value.empty()) plan.environment_text.push_back(name + "=" + value);
  for (std::string& entry : plan.environment_text) plan.environment.push_back(entry.data());
  plan.environment.push_back(nullptr);
  return plan;
}

[[noreturn]] void become(const ChildOptions& options, const ExecPlan& plan, int output, int report, pid_t parent) {
  set_up_child({parent, options.dies_with_parent, options.ignored_signals, output, options.in_background});
  for (int fd : options.inherited) ::fcntl(fd, F_SETFD, 0);
  ::execve(options.same_program ? running_program : plan.arguments[0], plan.arguments.data(), plan.environment.data());
  const int failure = errno;
  [[maybe_unused]] const ssize_t sent = ::write(report, &failure, sizeof failure);
  ::_exit(127);
}

// Every process may take less than it has: no call fails.
void go_to_background() {
  constexpr int kProcess = 1, kIdleClass = 3 << 13;  // of ioprio_set(2); there is no header for programs
  const sched_param none{};
  ::sched_setscheduler(0, SCHED_IDLE, &none);
  ::setpriority(PRIO_PROCESS, 0, 19);
  ::syscall(SYS_ioprio_set, kProcess, 0, kIdleClass);
}

}  // namespace

void set_up_child(const ChildSetup& setup) {
  if (setup.in_background) go_to_background();
  if (setup.dies_with_parent) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != setup.parent) ::_exit(127);  // the parent ended before the line above
  }
  for (int number : setup.ignored_signals) ::signal(number, SIG_IGN);
  ::signal(SIGPIPE, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (setup.output >= 0) {
    ::dup2(setup.output, STDOUT_FILENO);
    ::dup2(setup.output, STDERR_FILENO);
  }
}

UniqueFd open_output(const ChildOptions& options) {
  return options.output.empty() ? UniqueFd() : open_own_file(options.output, O_WRONLY | O_CREAT | O_APPEND);
}

ChildProcess ChildProcess::start(const ChildOptions& options) {
  const ExecPlan plan = plan_exec(options);
  const UniqueFd output = open_output(options);
  const int output_fd = output ? output.get() : options.output_descriptor;
  int report[2];
  if (::pipe2(report, O_CLOEXEC) != 0) throw system_error("cannot create a pipe", errno);
  UniqueFd reader(report[0]), writer(report[1]);
  ::signal(SIGCHLD, SIG_DFL);  // if this process inherited SIG_IGN, the kernel would reap children and discard the exit
                               // status
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) throw system_error("cannot start a process", errno);
  if (pid == 0) become(options, plan, output_fd, writer.get(), parent);
  writer.reset();
  int failure = 0;
  if (::read(reader.get(), &failure, sizeof failure) == sizeof failure) {
    ::waitpid(pid, nullptr, 0);
    throw system_error("cannot execute " + options.arguments[0], failure);
  }
  return adopt(pid);
}

ChildProcess ChildProcess::adopt(pid_t pid) {
  std::optional<ChildProcess> child = find(pid);
  if (!child) throw system_error(fmt::format("cannot watch process {}", pid), ESRCH);
  return std::move(*child);
}

std::optional<ChildProcess> ChildProcess::find(pid_t pid) {
  ChildProcess found;
  found.pid_ = pid;
  found.pidfd_ = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!found.pidfd_) {
    // The last two: the number is no process's, but may be a thread's.
    if (errno == ESRCH || errno == EINVAL || errno == ENOENT) return std::nullopt;
    throw system_error(fmt::format("cannot watch process {}", pid), errno);
  }
  ::fcntl(found.pidfd_.get(), F_SETFD, FD_CLOEXEC);
  return found;
}

void ChildProcess::signal(int number) const {
  if (running()) ::kill(pid_, number);
}

ChildEnd ChildProcess::wait() {
  int status = 0;
  rusage usage{};
  while (::wait4(pid_, &status, 0, &usage) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  pidfd_.reset();
  ChildEnd end;
  end.signaled = WIFSIGNALED(status);
  end.code = end.signaled ? WTERMSIG(status) : WEXITSTATUS(status);
  end.peak_memory_bytes = usage.ru_maxrss * INT64_C(1024);
  return end;
}

bool ChildProcess::wait_for(std::chrono::milliseconds limit, ChildEnd* end) {
  if (!running()) return true;
  pollfd poll{pidfd_.get(), POLLIN, 0};
  if (poll_within({&poll, 1}, limit) == 0) return false;
  const ChildEnd ended = wait();
  if (end != nullptr) *end = ended;
  return true;
}

std::string ChildEnd::text() const {
  if (!signaled) return fmt::format("exit status {}", code);
  return fmt::format("{} (signal {})", signal_name(code), code);
}

std::string signal_name(int number) {
  const char* name = ::sigabbrev_np(number);
  return name != nullptr ? std::string("SIG") + name : fmt::format("signal {}", number);
}

std::string own_executable() {
  std::error_code failure;
  std::string path = std::filesystem::read_symlink(running_program, failure).string();
  if (failure) throw system_error("cannot read /proc/self/exe", failure.value());
  // The kernel appends this to the path if the program's file was replaced; the new file has the plain path.
  constexpr std::string_view deleted = " (deleted)";
  if (path.ends_with(deleted)) path.resize(path.size() - deleted.size());
  return path;
}

std::map<std::string, std::string, std::less<>> own_environment() {
  std::map<std::string, std::string, std::less<>> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals != text.npos) all.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return all;
}

std::optional<std::string> environment_variable(const char* name) {
  const char* value = ::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

void replace_program(const std::string& program, const std::vector<std::string>& arguments) {
  std::vector<char*> words;
  for (const std::string& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  ::execv(program.c_str(), words.data());
  throw system_error("cannot execute " + program, errno);
}

}  // namespace estrain
