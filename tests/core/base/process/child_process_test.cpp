#include "core/base/process/child_process.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "core/base/clock.h"
#include "core/base/files/files.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace estrain {
namespace {

ChildOptions shell(const std::string& script) {
  ChildOptions options;
  options.arguments = {"/bin/sh", "-c", script};
  return options;
}

// Standard output and standard error of a script.
std::string output_of(ChildOptions options) {
  const ScratchFolder folder;
  options.output = folder / "output";
  ChildProcess::start(options).wait();
  return read_file(options.output);
}

TEST_CASE("a child's exit status is told") {
  for (const int status : {0, 1, 75}) {
    ChildProcess child = ChildProcess::start(shell("exit " + std::to_string(status)));
    CHECK(child.running());
    const ChildEnd end = child.wait();
    CHECK_FALSE(end.signaled);
    CHECK(end.code == status);
    CHECK(end.text() == "exit status " + std::to_string(status));
    CHECK(end.peak_memory_bytes > 100'000);
    CHECK_FALSE(child.running());
  }
}

TEST_CASE("a child that a signal ended is told by the signal's name") {
  ChildProcess child = ChildProcess::start(shell("kill -SEGV $$"));
  const ChildEnd end = child.wait();
  CHECK(end.signaled);
  CHECK(end.code == SIGSEGV);
  CHECK(end.text() == "SIGSEGV (signal 11)");
  CHECK(signal_name(SIGKILL) == "SIGKILL");
  CHECK(signal_name(12345) == "signal 12345");
}

// This test program, run as a child, writes its name and the file that it executes.
[[gnu::constructor]] void be_the_child(int argc, char** argv, char**) {
  if (argc != 2 || std::string_view(argv[1]) != "say what you are") return;
  std::printf("%s\n", argv[0]);
  std::exit(7);
}

TEST_CASE("the running program is executed, whatever lies at its path by now") {
  const ScratchFolder folder;
  ChildOptions options;
  options.arguments = {folder / "replaced", "say what you are"};
  options.output = folder / "output";
  options.same_program = true;
  CHECK(ChildProcess::start(options).wait().code == 7);
  CHECK(read_file(options.output) == folder / "replaced" + "\n");
}

TEST_CASE("a child gets its arguments as they are") {
  ChildOptions options;
  options.arguments = {"/bin/echo", "a b", "", "$HOME", "*"};
  CHECK(output_of(options) == "a b  $HOME *\n");
}

TEST_CASE("the environment is the parent's with additions and replacements") {
  ::setenv("ESTRAIN_TEST_KEPT", "kept", 1);
  ::setenv("ESTRAIN_TEST_REPLACED", "before", 1);
  ::setenv("ESTRAIN_TEST_REPLACED_NOT", "longer name", 1);
  ChildOptions options = shell(
      "echo $ESTRAIN_TEST_KEPT,$ESTRAIN_TEST_REPLACED,$ESTRAIN_TEST_REPLACED_NOT,$ESTRAIN_TEST_NEW; "
      "env | grep -c ESTRAIN_TEST_REPLACED=");
  options.environment = {{"ESTRAIN_TEST_REPLACED", "after"}, {"ESTRAIN_TEST_NEW", "a=b"}};
  CHECK(output_of(options) == "kept,after,longer name,a=b\n1\n");
  options.environment = {{"ESTRAIN_TEST_REPLACED", ""}};
  CHECK(output_of(options) == "kept,,longer name,\n0\n");
  CHECK(std::string(::getenv("ESTRAIN_TEST_REPLACED")) == "before");
}

TEST_CASE("output and errors are appended to a file") {
  const ScratchFolder folder;
  ChildOptions options = shell("echo out; echo error >&2");
  options.output = folder / "log";
  append_line(options.output, "before");
  ChildProcess::start(options).wait();
  CHECK(read_file(options.output) == "before\nout\nerror\n");
  options.output = folder / "none/log";
  CHECK(error_of([&] { ChildProcess::start(options); }).fault() == Fault::io);
}

TEST_CASE("a child inherits the descriptors named, and no other") {
  const ScratchFolder folder;
  const UniqueFd named = open_file(folder / "named", O_WRONLY | O_CREAT);
  const UniqueFd other = open_file(folder / "other", O_WRONLY | O_CREAT);
  const auto writes_to = [](const UniqueFd& fd) {
    return "{ echo here >&" + std::to_string(fd.get()) + "; } 2>/dev/null";
  };
  ChildOptions options = shell(writes_to(named) + "; " + writes_to(other));
  options.inherited = {named.get()};
  ChildProcess::start(options).wait();
  CHECK(read_file(folder / "named") == "here\n");
  CHECK(read_file(folder / "other").empty());
  CHECK((::fcntl(named.get(), F_GETFD) & FD_CLOEXEC) != 0);  // still not for children that do not ask
}

TEST_CASE("signals that the parent blocks are not blocked in the child") {
  sigset_t signals, before;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGTERM);
  ::sigprocmask(SIG_BLOCK, &signals, &before);
  ChildProcess child = ChildProcess::start(shell("exec sleep 60"));
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  child.signal(SIGTERM);
  ChildEnd end;
  REQUIRE(child.wait_for(10s, &end));
  CHECK(end.text() == "SIGTERM (signal 15)");
}

TEST_CASE("a program that cannot be executed is an error of the parent, and leaves no child behind") {
  const ScratchFolder folder;
  write_file_atomically(folder / "plain", "no program");
  for (const std::string& program : {folder / "none", folder / "plain"}) {
    ChildOptions options;
    options.arguments = {program};
    const Error error = error_of([&] { ChildProcess::start(options); });
    CHECK(error.fault() == Fault::io);
    CHECK(error.message().starts_with("cannot execute " + program + ": "));
  }
  CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);
  CHECK(errno == ECHILD);
}

TEST_CASE("the descriptor becomes readable when the child ends, and waiting has a limit") {
  ChildProcess child = ChildProcess::start(shell("exec sleep 60"));
  pollfd waiting{child.descriptor(), POLLIN, 0};
  CHECK(::poll(&waiting, 1, 0) == 0);
  CHECK_FALSE(child.wait_for(10ms));
  CHECK(child.running());
  child.signal(SIGKILL);
  CHECK(::poll(&waiting, 1, 10'000) == 1);
  ChildEnd end;
  CHECK(child.wait_for(0ms, &end));
  CHECK(end.code == SIGKILL);
  CHECK_FALSE(child.running());
  CHECK(child.wait_for(0ms));
}

TEST_CASE("a running child can be taken up by its number") {
  ChildProcess first = ChildProcess::start(shell("exec sleep 60"));
  ChildProcess second = ChildProcess::adopt(first.pid());
  CHECK((::fcntl(second.descriptor(), F_GETFD) & FD_CLOEXEC) != 0);
  second.signal(SIGTERM);
  CHECK(second.wait().code == SIGTERM);
  CHECK(error_of([] { ChildProcess::adopt(0x3fffff); }).message().starts_with("cannot watch process "));
}

TEST_CASE("a process that has ended is not found, nor is a thread taken for a process") {
  ChildProcess first = ChildProcess::start(shell("exec sleep 60"));
  const pid_t pid = first.pid();
  CHECK(ChildProcess::find(pid)->pid() == pid);
  first.signal(SIGKILL);
  first.wait();
  CHECK_FALSE(ChildProcess::find(pid).has_value());
  bool is_found = true;
  std::thread([&] { is_found = ChildProcess::find(::gettid()).has_value(); }).join();
  CHECK_FALSE(is_found);
}

// The middle process starts a child and is killed. The child holds the writing end of a pipe while it lives.
bool outlives_its_parent(bool dies_with_parent) {
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  const UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  const pid_t middle = ::fork();
  if (middle == 0) {
    ChildOptions options = shell("echo $$; exec sleep 60");
    options.dies_with_parent = dies_with_parent;
    ::dup2(writer.get(), STDOUT_FILENO);
    ChildProcess::start(options);
    for (;;) ::pause();
  }
  writer.reset();
  char number[16] = {};
  REQUIRE(::read(reader.get(), number, sizeof number - 1) > 0);
  ::kill(middle, SIGKILL);
  ::waitpid(middle, nullptr, 0);
  pollfd waiting{reader.get(), POLLIN, 0};
  const bool outlives = ::poll(&waiting, 1, dies_with_parent ? 10'000 : 200) == 0;
  if (outlives) ::kill(std::stoi(number), SIGKILL);
  return outlives;
}

TEST_CASE("a child dies with its parent, unless it is to outlive it") {
  CHECK_FALSE(outlives_its_parent(true));
  CHECK(outlives_its_parent(false));
}

TEST_CASE("the running program knows where it lies") {
  const std::string path = own_executable();
  CHECK(path.starts_with('/'));
  CHECK(std::filesystem::path(path).filename() == "test_core_base");
}

}  // namespace
}  // namespace estrain
