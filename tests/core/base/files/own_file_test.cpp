#include "core/base/files/own_file.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/files/files.h"
#include "core/base/process/child_process.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace estrain {
namespace {

constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC;

std::string why_refused(const std::string& path) {
  const Error error = error_of([&] { open_own_file(path, kFlags); });
  CHECK(error.fault() == Fault::usage);
  CHECK(error_of([&] { require_own_file(path); }).message() == error.message());
  return error.message();
}

TEST_CASE("a link is not written through, whatever the way to write") {
  const ScratchFolder folder;
  const std::string target = folder.write("target", "precious\n"), link = folder / "link";
  std::filesystem::create_symlink(target, link);
  CHECK(why_refused(link) == link + ": refusing to write to it: a symbolic link to " + target);
  CHECK(error_of([&] { append_line(link, "line"); }).fault() == Fault::usage);
  ChildOptions child;
  child.arguments = {"/bin/echo", "words"};
  child.output = link;
  CHECK(error_of([&] { ChildProcess::start(child); }).fault() == Fault::usage);
  CHECK(bytes_of(target) == "precious\n");
  std::filesystem::create_symlink(folder / "none", folder / "dangling");
  CHECK(error_of([&] { open_own_file(folder / "dangling", kFlags); }).fault() == Fault::usage);
  CHECK_FALSE(std::filesystem::exists(folder / "none"));
}

TEST_CASE("a link in the place of a temporary file goes, and what it led to stays") {
  const ScratchFolder folder;
  const std::string target = folder.write("target", "precious");
  std::filesystem::create_symlink(target, folder / "file.tmp");
  write_file_atomically(folder / "file", "content");
  CHECK(bytes_of(folder / "file") == "content");
  CHECK(bytes_of(target) == "precious");
  CHECK_FALSE(std::filesystem::exists(folder / "file.tmp"));
}

TEST_CASE("a FIFO, a device or a folder is no file to write, and nobody waits for it") {
  const ScratchFolder folder;
  REQUIRE(::mkfifo((folder / "fifo").c_str(), 0600) == 0);
  for (const std::string& path : {folder / "fifo", std::string("/dev/null"), folder.path()})
    CHECK(why_refused(path) == path + ": refusing to write to it: not a regular file");
}

TEST_CASE("a new file, and one of this user, are opened and cut only if asked to") {
  const ScratchFolder folder;
  const std::string path = folder / "file";
  REQUIRE_NOTHROW(require_own_file(path));
  open_own_file(path, O_WRONLY | O_CREAT, 0600);
  replace_bytes(path, "content");
  CHECK(static_cast<bool>(open_own_file(path, O_WRONLY | O_CREAT)));
  CHECK(bytes_of(path) == "content");
  open_own_file(path, kFlags);
  CHECK(bytes_of(path).empty());
  CHECK(error_of([&] { open_own_file(folder / "none/file", kFlags); }).fault() == Fault::io);
}

TEST_CASE("a folder may be a link that this user made, and its files are written to") {
  const ScratchFolder folder;
  std::filesystem::create_directory(folder / "real");
  std::filesystem::create_directory_symlink(folder / "real", folder / "link");
  CHECK_NOTHROW(require_own_folder(folder / "link"));
  CHECK_NOTHROW(append_line(folder / "link/file", "line"));
  CHECK(bytes_of(folder / "real/file") == "line\n");
}

// Only root can change a file's owner.
TEST_CASE("what belongs to another user" * doctest::skip(::geteuid() != 0)) {
  constexpr uid_t kOther = 12345, kThird = 12346;
  const ScratchFolder folder;
  const std::string path = folder.write("file", "content");
  REQUIRE(::chown(path.c_str(), kOther, -1u) == 0);
  SUBCASE("a file of another user in a folder of this one is not written to") {
    CHECK(why_refused(path) == path + ": refusing to write to it: it belongs to another user (uid 12345)");
    CHECK(bytes_of(path) == "content");
  }
  SUBCASE("one that belongs to the owner of the folder is: root goes on with a user's run") {
    REQUIRE(::chown(folder.path().c_str(), kOther, -1u) == 0);
    CHECK_NOTHROW(open_own_file(path, kFlags));
  }
  SUBCASE("nor is one of this user that has a second name there, for it may lie elsewhere") {
    const ScratchFolder elsewhere;
    const std::string precious = elsewhere.write("precious", "content");
    std::filesystem::create_hard_link(precious, folder / "lock");
    CHECK_NOTHROW(require_own_file(folder / "lock"));  // the folder is this user's
    REQUIRE(::chown(folder.path().c_str(), kOther, -1u) == 0);
    CHECK(why_refused(folder / "lock") ==
          folder / "lock" +
              ": refusing to write to it: it has 2 names (hard links), and the folder belongs to another user "
              "(uid 12345)");
    CHECK(bytes_of(precious) == "content");
  }
  SUBCASE("nor does a link to a folder lead anywhere that another user made") {
    std::filesystem::create_directory_symlink(folder.path(), folder / "link");
    REQUIRE(::lchown((folder / "link").c_str(), kThird, -1u) == 0);
    const Error error = error_of([&] { require_own_folder(folder / "link"); });
    CHECK(error.fault() == Fault::usage);
    CHECK(error.message().find("that another user (uid 12346) made") != std::string::npos);
  }
}

}  // namespace
}  // namespace estrain
