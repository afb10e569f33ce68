#include "core/base/process/fork_server.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "core/base/clock.h"
#include "core/base/files/files.h"
#include "core/base/process/process_stat.h"
#include "tests/scratch_folder.h"

namespace estrain {
namespace {

constexpr auto kPatience = 20s;
constexpr int kCopies = 3;

// The copies' side. Each does what its second argument says, and exits.
int act(const std::vector<std::string>& arguments) {
  const std::string& deed = arguments.at(1);
  if (deed == "tell") {
    std::printf("%d %d %ld\n", ::getpid(), ::getppid(), ::syscall(SYS_gettid));
    std::fflush(stdout);
    return 7;
  }
  if (deed == "read") {  // from the descriptors that are named
    for (size_t i = 2; i < arguments.size(); ++i) {
      char text[8] = {};
      if (::pread(std::stoi(arguments[i]), text, 7, 0) < 0) std::snprintf(text, sizeof text, "none");
      std::printf("%s\n", text);
    }
    std::fflush(stdout);
    return 0;
  }
  if (deed == "clock") {  // of the thread by the number that the C library keeps for it
    clockid_t clock;
    timespec time{};
    return ::pthread_getcpuclockid(::pthread_self(), &clock) == 0 && ::clock_gettime(clock, &time) == 0 ? 0 : 1;
  }
  if (deed == "wait") ::pause();
  return 0;
}

// This test program, run as a server.
[[gnu::constructor]] void be_the_server(int argc, char** argv, char**) {
  if (argc < 4 || std::string_view(argv[1]) != "serve forks") return;
  if (std::string_view(argv[2]) == "with a thread") std::thread([] { ::pause(); }).detach();
  if (std::string_view(argv[2]) == "never ready") ::pause();
  const std::vector<std::string> arguments = serve_forks(std::atoi(argv[4]));
  ::_exit(act(arguments));
}

ForkServer server_of_this_program(const std::string& how = "well") {
  ChildOptions options;
  options.arguments = {own_executable(), "serve forks", how};
  return ForkServer::start(options);
}

ForkServer ready_server() {
  ForkServer server = server_of_this_program();
  REQUIRE(server.wait_until_ready(kPatience));
  return server;
}

ChildProcess copy_of(ForkServer& server, const ChildOptions& options) {
  std::optional<ChildProcess> copy = server.fork(options);
  REQUIRE(copy.has_value());
  return std::move(*copy);
}

ChildOptions deed(std::vector<std::string> arguments) {
  ChildOptions options;
  options.arguments = std::move(arguments);
  options.arguments.insert(options.arguments.begin(), "copy");
  return options;
}

// A server with a second thread makes no copies, and ThreadSanitizer has one in every process.
#ifdef __SANITIZE_THREAD__
constexpr bool kHasOtherThread = true;
#else
constexpr bool kHasOtherThread = false;
#endif

TEST_SUITE_BEGIN("fork server" * doctest::skip(kHasOtherThread));

TEST_CASE("a copy is a child of the process that asks, and knows its own numbers") {
  ForkServer server = ready_server();
  const ScratchFolder folder;
  std::set<pid_t> pids;
  for (int i = 0; i < kCopies; ++i) {
    ChildOptions options = deed({"tell"});
    options.output = folder / std::to_string(i);
    ChildProcess copy = copy_of(server, options);
    const pid_t pid = copy.pid();
    pids.insert(pid);
    CHECK(copy.wait().code == 7);
    CHECK(read_file(options.output) == fmt::format("{} {} {}\n", pid, ::getpid(), pid));
  }
  CHECK(pids.size() == kCopies);
}

TEST_CASE("a copy's C library knows the number of its thread") {
  ForkServer server = ready_server();
  CHECK(copy_of(server, deed({"clock"})).wait().code == 0);
}

TEST_CASE("descriptors have the parent's numbers in a copy, whatever the server has there") {
  ForkServer server = ready_server();
  const ScratchFolder folder;
  // The server receives so many files under low numbers, some of which its copy is to have for other files.
  std::vector<UniqueFd> files;
  ChildOptions options = deed({"read"});
  std::string expected;
  constexpr int kFiles = 24, kStep = 7;  // in an order that a plain dup2 of one after the other would mix up
  for (int i = 0; i < kFiles; ++i) {
    const std::string name = fmt::format("file{:02}", i * kStep % kFiles);
    const UniqueFd opened(::open(folder.write(name, name).c_str(), O_RDONLY | O_CLOEXEC));
    files.emplace_back(::fcntl(opened.get(), F_DUPFD_CLOEXEC, 8 + i * kStep % kFiles));
    options.inherited.push_back(files.back().get());
    options.arguments.push_back(std::to_string(files.back().get()));
    expected += name + "\n";
  }
  options.output = folder / "output";
  CHECK(copy_of(server, options).wait().code == 0);
  CHECK(read_file(options.output) == expected);
}

TEST_CASE("a copy shows its own arguments, ignores what it is to ignore, and can be killed") {
  ForkServer server = ready_server();
  ChildOptions options = deed({"wait", "--a", "longer argument"});
  options.ignored_signals = {SIGUSR1};
  ChildProcess copy = copy_of(server, options);
  const std::string shown("copy\0wait\0--a\0longer argument\0", 30);
  const std::string folder = fmt::format("/proc/{}", copy.pid());
  while (text_if_readable(folder + "/cmdline").substr(0, shown.size()) != shown) ::usleep(1000);
  copy.signal(SIGUSR1);
  CHECK_FALSE(copy.wait_for(50ms));
  copy.signal(SIGKILL);
  CHECK(copy.wait().text() == "SIGKILL (signal 9)");
}

TEST_CASE("a server that has threads, or has ended, makes no copies") {
  ForkServer threads = server_of_this_program("with a thread");
  CHECK_FALSE(threads.wait_until_ready(kPatience));
  CHECK_FALSE(threads.note().has_value());
  ForkServer killed = ready_server();
  ::kill(killed.note()->pid, SIGKILL);
  CHECK_FALSE(killed.fork(deed({"tell"})).has_value());
  CHECK_FALSE(killed.note().has_value());
  CHECK_FALSE(ForkServer().wait_until_ready(0ms));
}

TEST_CASE("a server that still loads is not waited for longer than asked") {
  ForkServer server = server_of_this_program("never ready");
  CHECK_FALSE(server.wait_until_ready(20ms));
  CHECK_FALSE(server.fork(deed({"tell"})).has_value());
  REQUIRE(server.note().has_value());
  CHECK_FALSE(server.note()->ready);
}

TEST_CASE("a server that stands still is given up, and no copy of it begins later") {
  ForkServer server = ready_server();
  const pid_t pid = server.note()->pid;
  const ScratchFolder folder;
  ::kill(pid, SIGSTOP);
  ChildOptions options = deed({"tell"});
  options.output = folder / "output";
  CHECK_FALSE(server.fork(options).has_value());
  CHECK(process_stat(pid).state == '\0');
  CHECK(read_file(options.output).empty());
}

TEST_CASE("a server goes on after its owner has executed another program") {
  ForkServer server = ready_server();
  const ForkServer::Note note = *server.note();
  ForkServer again = ForkServer::adopt({note.pid, ::dup(note.socket), note.ready});
  CHECK(copy_of(again, deed({"tell"})).wait().code == 7);
}

TEST_SUITE_END();

}  // namespace
}  // namespace estrain
