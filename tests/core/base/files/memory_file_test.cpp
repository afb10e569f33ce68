#include "core/base/files/memory_file.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <string>

#include "core/base/error.h"
#include "tests/error_of.h"

namespace estrain {
namespace {

TEST_CASE("a memory file has its content, is read from its beginning, and an exec closes it") {
  const std::string content = std::string(3'000'000, 'x') + std::string("\0end", 4);
  const UniqueFd fd = memory_file("estrain-test", content);
  CHECK(::lseek(fd.get(), 0, SEEK_CUR) == 0);
  CHECK((::fcntl(fd.get(), F_GETFD) & FD_CLOEXEC) != 0);
  ::lseek(fd.get(), 7, SEEK_SET);
  CHECK(read_memory_file(fd.get()) == content);
  CHECK(read_memory_file(memory_file("estrain-test", "").get()).empty());
}

TEST_CASE("nobody changes a memory file that is sealed") {
  const UniqueFd fd = memory_file("estrain-test", "text");
  CHECK(::pwrite(fd.get(), "T", 1, 0) == 1);
  seal_memory_file(fd.get());
  CHECK(::pwrite(fd.get(), "t", 1, 0) == -1);
  CHECK(::ftruncate(fd.get(), 0) == -1);
  CHECK(read_memory_file(fd.get()) == "Text");
  CHECK(error_of([&] { seal_memory_file(fd.get()); }).fault() == Fault::io);
}

TEST_CASE("a descriptor that is none is an error") {
  CHECK(error_of([] { read_memory_file(-1); }).message().starts_with("cannot read a file in memory"));
}

}  // namespace
}  // namespace estrain
