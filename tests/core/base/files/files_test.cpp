#include "core/base/files/files.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <csignal>
#include <sstream>
#include <vector>

#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace estrain {
namespace {

TEST_CASE("a file is read as it was written, zero bytes and size zero included") {
  const ScratchFolder folder;
  const std::string path = folder / "file";
  for (const std::string& content : {std::string(), std::string("a\0b\n", 4), std::string(300'000, 'x')}) {
    write_file_atomically(path, content);
    CHECK(read_file(path) == content);
    CHECK(read_file_if_present(path) == content);
  }
}

TEST_CASE("files without a size in advance are read to their end") {
  CHECK(read_file("/proc/self/status").find("VmRSS") != std::string::npos);
}

TEST_CASE("a missing file is an error that names it, or nothing where it may be missing") {
  const ScratchFolder folder;
  const Error error = error_of([&] { read_file(folder / "none"); });
  CHECK(error.fault() == Fault::io);
  CHECK(error.message() == "cannot open " + folder / "none" + ": No such file or directory");
  CHECK_FALSE(read_file_if_present(folder / "none").has_value());
  write_file_atomically(folder / "plain", "");
  CHECK(error_of([&] { read_file_if_present(folder / "plain" + "/below"); }).fault() == Fault::io);
  CHECK(error_of([&] { read_file(folder.path()); }).message().starts_with("cannot read "));
}

TEST_CASE("an atomic write replaces the whole file and leaves no other file behind") {
  const ScratchFolder folder;
  write_file_atomically(folder / "file", "a long first content");
  const int before = open_file(folder / "file", O_RDONLY).release();
  write_file_atomically(folder / "file", "short");
  CHECK(read_file(folder / "file") == "short");
  char old[64] = {};
  CHECK(::read(before, old, sizeof old) == 20);  // open descriptors still read the old file
  CHECK(std::string(old) == "a long first content");
  ::close(before);
  const std::filesystem::directory_iterator files(folder.path());
  CHECK(std::distance(begin(files), end(files)) == 1);
}

// A process limited to a few bytes per file simulates a full disk.
TEST_CASE("an atomic write that fails leaves the old file as it was and no temporary one") {
  const ScratchFolder folder;
  write_file_atomically(folder / "file", "old");
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{16, 16};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    try {
      write_file_atomically(folder / "file", std::string(1000, 'n'));
    } catch (const Error& error) {
      ::_exit(error.fault() == Fault::io && error.message().starts_with("cannot write ") ? 7 : 8);
    }
    ::_exit(9);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WEXITSTATUS(status) == 7);
  CHECK(read_file(folder / "file") == "old");
  CHECK_FALSE(std::filesystem::exists(folder / "file.tmp"));
}

TEST_CASE("an atomic write into a folder that is not there names the path") {
  const ScratchFolder folder;
  const Error error = error_of([&] { write_file_atomically(folder / "none/file", "x"); });
  CHECK(error.fault() == Fault::io);
  CHECK(error.message().find(folder / "none/file") != std::string::npos);
}

TEST_CASE("appending a line makes the file, then adds to it") {
  const ScratchFolder folder;
  append_line(folder / "log", "one");
  append_line(folder / "log", "two");
  CHECK(read_file(folder / "log") == "one\ntwo\n");
}

TEST_CASE("lines that several processes append at once are all there, and whole") {
  constexpr int kProcesses = 4, kLines = 400;
  const ScratchFolder folder;
  std::vector<pid_t> children;
  for (int child = 0; child < kProcesses; ++child) {
    children.push_back(::fork());
    if (children.back() != 0) continue;
    for (int i = 0; i < kLines; ++i)
      append_line_among_others(folder / "log", fmt::format("{}:{}:{:a>{}}", child, i, "", 20 * child));
    ::_exit(0);
  }
  for (const pid_t child : children) {
    int status = 1;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(status == 0);
  }
  std::istringstream log(read_file(folder / "log"));
  std::vector<int> next(kProcesses, 0);
  for (std::string line; std::getline(log, line);) {
    const int child = line[0] - '0';
    REQUIRE(child >= 0);
    REQUIRE(child < kProcesses);
    REQUIRE(line == fmt::format("{}:{}:{:a>{}}", child, next[static_cast<size_t>(child)]++, "", 20 * child));
  }
  CHECK(next == std::vector<int>(kProcesses, kLines));
}

TEST_CASE("a line left unfinished by a crash is dropped by the next one, however long it is") {
  const ScratchFolder folder;
  for (const size_t length : {1, 4095, 4096, 4097, 10000}) {
    CAPTURE(length);
    const std::string unfinished(length, 'x');
    write_file_atomically(folder / "log", "one\n" + unfinished);
    append_line(folder / "log", "two");
    CHECK(read_file(folder / "log") == "one\ntwo\n");
    write_file_atomically(folder / "log", unfinished);
    append_line(folder / "log", "two");
    CHECK(read_file(folder / "log") == "two\n");
  }
}

TEST_CASE("a line for which there is no room is not begun") {
  const ScratchFolder folder;
  append_line(folder / "log", "one");
  rlimit free;
  ::getrlimit(RLIMIT_FSIZE, &free);
  const rlimit tight{6, free.rlim_max};
  ::signal(SIGXFSZ, SIG_IGN);
  ::setrlimit(RLIMIT_FSIZE, &tight);
  const Error error = error_of([&] { append_line(folder / "log", "two"); });
  ::setrlimit(RLIMIT_FSIZE, &free);
  CHECK(error.fault() == Fault::io);
  CHECK(error.message() == "cannot write " + (folder / "log") + ": File too large");
  CHECK(read_file(folder / "log") == "one\n");
  append_line(folder / "log", "three");
  CHECK(read_file(folder / "log") == "one\nthree\n");
}

TEST_CASE("folders are made with all above them; a file in the way is an error") {
  const ScratchFolder folder;
  make_folders(folder / "a/b/c");
  make_folders(folder / "a/b/c");
  CHECK(std::filesystem::is_directory(folder / "a/b/c"));
  write_file_atomically(folder / "a/file", "");
  CHECK(error_of([&] { make_folders(folder / "a/file/d"); }).fault() == Fault::io);
  CHECK(error_of([&] { sync_folder(folder / "a/file"); }).fault() == Fault::io);
}

TEST_CASE("descriptors of opened files do not pass to other programs, and close with their owner") {
  const ScratchFolder folder;
  int number = -1;
  {
    UniqueFd first = open_file(folder / "file", O_RDWR | O_CREAT, 0600);
    number = first.get();
    CHECK((::fcntl(number, F_GETFD) & FD_CLOEXEC) != 0);
    UniqueFd second = std::move(first);
    CHECK_FALSE(static_cast<bool>(first));  // NOLINT(bugprone-use-after-move): the moved-from state
    CHECK(second.get() == number);
  }
  CHECK(::fcntl(number, F_GETFD) == -1);
  struct stat info {};
  REQUIRE(::stat((folder / "file").c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);
}

}  // namespace
}  // namespace estrain
