// The users that may command a launcher.
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>

#include "core/base/files/files.h"
#include "core/run/launch/control/control_socket.h"
#include "core/state/run_directory/run_owner.h"
#include "tests/core/run/launch/control/serving.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace estrain::launch {
namespace {

// Makes only this thread another user for a while; needs root.
class AnotherUser {
 public:
  AnotherUser() { REQUIRE(::syscall(SYS_setresuid, -1, 65534, -1) == 0); }
  ~AnotherUser() { ::syscall(SYS_setresuid, -1, 0, -1); }
};

TEST_CASE("another user is told that the job runs, and why it does not answer" * doctest::skip(::getuid() != 0)) {
  const ScratchFolder run;
  std::filesystem::permissions(run.path(), std::filesystem::perms{0755});
  const Serving serving(run.path(), answer_with_echo);
  const auto asked = [&] { return error_of([&] { ask_launcher(run.path(), decisions::StatusRequest{}, kHangsFor); }); };
  run_directory::RunOwner owner = run_directory::RunOwner::this_process();
  SUBCASE("whose launcher lives") {
    run.write("lock", owner.to_text());
    const AnotherUser other;
    CHECK(asked().fault() == Fault::io);
    CHECK(asked().message() == run.path() + ": running, but its control socket is another user's");
    CHECK(launcher_answers(run.path()));
  }
  SUBCASE("unless its launcher was killed and left the socket behind") {
    owner.pid = ::fork();
    if (owner.pid == 0) ::_exit(0);
    ::waitpid(owner.pid, nullptr, 0);
    run.write("lock", owner.to_text());
    const AnotherUser other;
    CHECK(asked().message() == run.path() + ": no job is running there");
    CHECK_FALSE(launcher_answers(run.path()));
  }
}

TEST_CASE("root and the user itself may command a launcher, nobody else") {
  CHECK(may_command(1000, 1000));
  CHECK(may_command(0, 1000));
  CHECK(may_command(0, 0));
  CHECK_FALSE(may_command(1001, 1000));
  CHECK_FALSE(may_command(65534, 0));
}

// The socket's response to a process of another user: 'r' if the connection is refused, 'c' if it is closed silently,
// 'a' for an answer.
char try_as_nobody(const std::string& run) {
  int status = 0;
  const pid_t child = ::fork();
  if (child == 0) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    (run + "/control.sock").copy(address.sun_path, sizeof address.sun_path - 1);
    const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
    if (::setgid(65534) != 0 || ::setuid(65534) != 0) ::_exit('?');
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
      ::_exit(errno == EACCES ? 'r' : '!');
    ::send(fd, "{\"do\":\"stop\"}\n", 14, MSG_NOSIGNAL);
    char byte = 0;
    ::_exit(::read(fd, &byte, 1) > 0 ? 'a' : 'c');
  }
  REQUIRE(::waitpid(child, &status, 0) == child);
  return static_cast<char>(WEXITSTATUS(status));
}

// Needs root to become another user.
TEST_CASE("another user does not get in, not even if the socket's mode lets everybody" *
          doctest::skip(::geteuid() != 0)) {
  const ScratchFolder run;
  const Serving serving(run.path(), answer_with_echo);
  std::filesystem::permissions(run.path(), std::filesystem::perms(0755));
  CHECK(try_as_nobody(run.path()) == 'r');
  std::filesystem::permissions(run / "control.sock", std::filesystem::perms(0777));
  CHECK(try_as_nobody(run.path()) == 'c');
  CHECK(gives_status(run.path()));
}

// Needs root to become another user.
TEST_CASE("the members of a group get in where the socket is theirs, and each client's user is known" *
          doctest::skip(::geteuid() != 0)) {
  const ScratchFolder run;
  std::filesystem::permissions(run.path(), std::filesystem::perms(0755));
  std::atomic<uint32_t> user{0};
  const auto answer = [&](ControlServer& server, ClientId client, const decisions::Request&) {
    user = server.user(client);
    server.reply(client, {{"ok", true}});
  };
  {
    const Serving serving(run.path(), answer, 65534);
    CHECK(try_as_nobody(run.path()) == 'a');
    CHECK(user == 65534);
    CHECK(gives_status(run.path()));
    CHECK(user == 0);
  }
  const Serving serving(run.path(), answer, 65533);
  CHECK(try_as_nobody(run.path()) == 'r');
}

TEST_CASE("a socket that is open to a group belongs to the group, with mode 0660 whatever the umask") {
  const ScratchFolder run;
  const mode_t before = ::umask(0077);
  const Serving serving(run.path(), answer_with_echo, ::getegid());
  ::umask(before);
  struct stat info {};
  REQUIRE(::stat((run / "control.sock").c_str(), &info) == 0);
  CHECK((info.st_mode & 07777) == 0660);
  CHECK(info.st_gid == ::getegid());
  CHECK(gives_status(run.path()));
}

TEST_CASE("the socket's mode is 0600 whatever the umask, and a path of any length will do") {
  const ScratchFolder folder;
  const std::string run = folder / std::string(200, 'd');
  make_folders(run);
  const mode_t before = ::umask(0);
  const Serving serving(run, answer_with_echo);
  ::umask(before);
  struct stat info {};
  REQUIRE(::stat((run + "/control.sock").c_str(), &info) == 0);
  CHECK((info.st_mode & 07777) == 0600);
  CHECK(gives_status(run));
}

}  // namespace
}  // namespace estrain::launch
