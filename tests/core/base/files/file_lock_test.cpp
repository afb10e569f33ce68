#include "core/base/files/file_lock.h"

#include <doctest/doctest.h>
#include <fcntl.h>

#include <filesystem>

#include "core/base/files/files.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace estrain {
namespace {

TEST_CASE("a lock is one descriptor's at a time") {
  const ScratchFolder folder;
  const std::string path = folder / "lock";
  UniqueFd one = open_file(path, O_RDWR | O_CREAT);
  const UniqueFd other = open_file(path, O_RDWR);
  CHECK(take_lock(one.get(), path));
  CHECK(take_lock(one.get(), path));
  CHECK_FALSE(take_lock(other.get(), path));
  one.reset();
  CHECK(take_lock(other.get(), path));
}

TEST_CASE("a file that was deleted or replaced is not the file at its path any more") {
  const ScratchFolder folder;
  const std::string path = folder / "lock";
  const UniqueFd before = open_file(path, O_RDWR | O_CREAT);
  CHECK(is_file_at(before.get(), path));
  std::filesystem::remove(path);
  CHECK_FALSE(is_file_at(before.get(), path));
  const UniqueFd now = open_file(path, O_RDWR | O_CREAT);
  CHECK_FALSE(is_file_at(before.get(), path));
  CHECK(is_file_at(now.get(), path));
}

TEST_CASE("the lock of a path is that of the file which is there") {
  const ScratchFolder folder;
  const std::string path = folder / "lock";
  UniqueFd one, other;
  CHECK(lock_file_at(path, one));
  CHECK_FALSE(lock_file_at(path, other));
  std::filesystem::remove(path);
  CHECK(lock_file_at(path, other));
  CHECK_FALSE(lock_file_at(path, one));
  CHECK(is_file_at(one.get(), path));
}

TEST_CASE("a lock that cannot be had at all is not one that somebody else has") {
  const Error error = error_of([] { take_lock(-1, "run/lock"); });
  CHECK(error.fault() == Fault::io);
  CHECK(error.message() == "cannot lock run/lock: Bad file descriptor");
  CHECK(error.advice().find("flock") != std::string::npos);
}

}  // namespace
}  // namespace estrain
