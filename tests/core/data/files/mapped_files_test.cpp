// A data file that becomes shorter while it is mapped: the process that reads it is killed, and says by which file.
#include "core/data/files/mapped_files.h"

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

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

}  // namespace
}  // namespace estrain::data
