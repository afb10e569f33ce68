// A data file that becomes shorter while it is mapped: the process that reads it is killed, and says by which file.
// Pages that were read are released.
#include "core/data/files/mapped_files.h"

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <span>
#include <string>

#include "core/base/files/files.h"
#include "core/data/files/file_bytes.h"
#include "tests/scratch_folder.h"

namespace estrain::data {
namespace {

constexpr size_t kBytes = 3 * 65536;

// Reads the byte in a process of its own, which SIGBUS must kill. Returns its words on stderr.
std::string words_before_death(const std::string& file, const volatile std::byte* byte) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::freopen(file.c_str(), "w", stderr) == nullptr) ::_exit(1);
    name_shortened_files();
    (void)*byte;
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGBUS);
  return read_file(file);
}

TEST_CASE("a process that is killed because a data file became shorter has named the file") {
  const ScratchFolder folder;
  const std::string words = folder / "words", path = folder / "b.bin", other = folder / "a.bin";
  folder.write("a.bin", std::string(kBytes, 'a'));
  folder.write("b.bin", std::string(kBytes, 'b'));
  const FileBytes a = FileBytes::map(other), b = FileBytes::map(path);
  std::filesystem::resize_file(path, 100);
  CHECK(words_before_death(words, b.data() + kBytes - 1) ==
        "data file " + path + " became shorter while it was in use [cause: data_file_shortened]\n");

  // Memory that is no data file, and a file that is not mapped any more.
  const void* const was = b.data();
  forget_mapping(was);
  CHECK(words_before_death(words, b.data() + kBytes - 1).empty());
}

// Bytes of mapped files in the memory of this process.
int64_t bytes_of_files() {
  const std::string text = read_file("/proc/self/status"), key = "RssFile:";
  return 1024 * std::stoll(text.substr(text.find(key) + key.size()));
}

TEST_CASE("pages that are released leave the memory, and are read anew") {
  constexpr int64_t kLarge = 8 << 20;
  const ScratchFolder folder;
  folder.write("a.bin", std::string(kLarge, 'a'));
  const FileBytes file = FileBytes::map(folder / "a.bin");
  const auto count = [](std::span<const std::byte> bytes) { return std::ranges::count(bytes, std::byte{'a'}); };
  const int64_t before = bytes_of_files();
  CHECK(count(file.bytes) == kLarge);
  CHECK(bytes_of_files() - before > kLarge * 9 / 10);
  const std::span<const std::byte> half = file.bytes.first(kLarge / 2 + 1);
  release_pages(half);
  CHECK(bytes_of_files() - before < kLarge * 6 / 10);
  release_pages(file.bytes.subspan(1));  // from the page of its first byte
  CHECK(bytes_of_files() - before < kLarge / 10);
  CHECK(count(file.bytes) == kLarge);
}

}  // namespace
}  // namespace estrain::data
