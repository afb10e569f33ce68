#include "core/base/files/input_file.h"

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <future>

#include "core/base/clock.h"
#include "core/base/files/files.h"
#include "core/base/files/long_files.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace estrain {
namespace {

std::string fifo_in(const ScratchFolder& folder) {
  REQUIRE(::mkfifo((folder / "fifo").c_str(), 0600) == 0);
  return folder / "fifo";
}

TEST_CASE("what is no file is named for what it is, and nobody waits for it") {
  const ScratchFolder folder;
  const std::string fifo = fifo_in(folder), socket = folder / "socket";
  const UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM, 0));
  sockaddr_un address{AF_UNIX, {}};
  socket.copy(address.sun_path, sizeof address.sun_path - 1);
  REQUIRE(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  const std::pair<std::string, std::string> expected[] = {
      {fifo, "a FIFO, not a regular file"},
      {"/dev/zero", "a character device, not a regular file"},
      {socket, "a socket, not a regular file"},
      {folder.path(), "Is a directory"},
  };
  for (const auto& [path, what] : expected) {
    const Error error = error_of([&] { read_file(path); });
    CHECK(error.fault() == Fault::io);
    CHECK(error.message() == "cannot read " + path + ": " + what);
    CHECK(error_of([&] { open_input(path); }).message() == error.message());
    CHECK(error_of([&] { read_file_if_present(path); }).message() == error.message());
    CHECK(error_of([&] { LineReader{path}; }).message() == error.message());
    CHECK(error_of([&] { BackwardLineReader{path}; }).message() == error.message());
    CHECK(error_of([&] { last_bytes(path, 10); }).message() == error.message());
    CHECK(text_if_readable(path).empty());
  }
}

TEST_CASE("a file that is larger than it may be is not read into memory") {
  const ScratchFolder folder;
  const std::string path = folder.write("file", "0123456789");
  const UniqueFd fd = open_input(path);
  CHECK(read_whole(fd.get(), path, 10) == "0123456789");
  CHECK(error_of([&] { read_whole(open_input(path).get(), path, 9); }).message() ==
        "cannot read " + path + ": larger than the limit of 9 bytes");
  std::filesystem::resize_file(path, uint64_t{1} << 40);  // a sparse file without data
  CHECK(error_of([&] { read_file(path); }).fault() == Fault::io);
}

// /proc gives no sizes in advance.
TEST_CASE("the limit counts bytes, not what the system says of the size") {
  CHECK(error_of([] { read_whole(open_input("/proc/self/status").get(), "/proc/self/status", 20); }).fault() ==
        Fault::io);
}

TEST_CASE("a pipe is read to its end, also in pieces, and by a name that leads to it") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  auto input = std::async(std::launch::async,
                          [&] { return read_file_or_pipe("/proc/self/fd/" + std::to_string(reader.get()), 100); });
  for (const char* piece : {"one ", "two"}) {
    REQUIRE(::write(writer.get(), piece, std::string_view(piece).size()) > 0);
    CHECK(input.wait_for(std::chrono::milliseconds(50)) == std::future_status::timeout);
  }
  writer.reset();
  const Input got = input.get();
  CHECK(got.text == "one two");
  CHECK(got.piped);
}

TEST_CASE("a pipe whose writer has gone already gives what it left") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const UniqueFd reader(ends[0]);
  REQUIRE(::write(ends[1], "text", 4) == 4);
  ::close(ends[1]);
  CHECK(read_file_or_pipe("/proc/self/fd/" + std::to_string(reader.get()), 100).text == "text");
}

TEST_CASE("a pipe that brings nothing, or does not end, is given up") {
  const ScratchFolder folder;
  const std::string fifo = fifo_in(folder);
  const Error silent = error_of([&] { read_file_or_pipe(fifo, 100, 50ms); });
  CHECK(silent.fault() == Fault::io);
  CHECK(silent.message() == "cannot read " + fifo + ": a pipe without data for 0.05 s");
  const UniqueFd writer = open_file(fifo, O_RDWR);
  REQUIRE(::write(writer.get(), "half", 4) == 4);
  CHECK(error_of([&] { read_file_or_pipe(fifo, 100, 50ms); }).message() == silent.message());
  REQUIRE(::write(writer.get(), "more than there may be", 22) == 22);
  CHECK(error_of([&] { read_file_or_pipe(fifo, 10, 50ms); }).message().find("larger than the limit of 10 bytes") !=
        std::string::npos);
}

TEST_CASE("a file may stand where a pipe may") {
  const ScratchFolder folder;
  const Input got = read_file_or_pipe(folder.write("file", "text"), 100);
  CHECK(got.text == "text");
  CHECK_FALSE(got.piped);
  CHECK(error_of([] { read_file_or_pipe("/dev/zero", 100); }).message() ==
        "cannot read /dev/zero: a character device, not a regular file");
}

}  // namespace
}  // namespace estrain
