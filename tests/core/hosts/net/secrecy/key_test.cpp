#include "core/hosts/net/secrecy/key.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/files/files.h"
#include "tests/scratch_folder.h"

namespace estrain::net {
namespace {

TEST_CASE("a key is made once, for its owner alone, and read again") {
  const ScratchFolder folder;
  const std::string path = folder.path() + "/network.key";
  CHECK_THROWS_AS(SharedKey::read(path), Error);
  const SharedKey made = SharedKey::read_or_make(path);
  CHECK(SharedKey::read(path).bytes() == made.bytes());
  CHECK(SharedKey::read_or_make(path).bytes() == made.bytes());
  struct stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
  CHECK(status.st_size == 32);
  const ScratchFolder other;
  CHECK(SharedKey::read_or_make(other.path() + "/network.key").bytes() != made.bytes());
}

TEST_CASE("a key that others may read, or that is none, is refused") {
  const ScratchFolder folder;
  const std::string path = folder.path() + "/network.key";
  SharedKey::read_or_make(path);
  REQUIRE(::chmod(path.c_str(), 0640) == 0);
  CHECK_THROWS_WITH_AS(SharedKey::read(path),
                       (path + ": the network key must belong to you, and no other user may read it").c_str(), Error);
  REQUIRE(::chmod(path.c_str(), 0600) == 0);
  CHECK_NOTHROW(SharedKey::read(path));
  REQUIRE(::truncate(path.c_str(), 31) == 0);
  CHECK_THROWS_WITH_AS(SharedKey::read(path), (path + ": a network key is a file of 32 bytes").c_str(), Error);
  REQUIRE(::unlink(path.c_str()) == 0);
  REQUIRE(::symlink("/dev/zero", path.c_str()) == 0);
  CHECK_THROWS_AS(SharedKey::read(path), Error);
}

TEST_CASE("a FIFO in the place of a key is refused, and does not block") {
  const ScratchFolder folder;
  const std::string path = folder.path() + "/network.key";
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  CHECK_THROWS_WITH_AS(SharedKey::read_or_make(path), (path + ": a network key is a file of 32 bytes").c_str(), Error);
}

TEST_CASE("what a process that was killed has left of a key is in nobody's way") {
  const ScratchFolder folder;
  const std::string path = folder.path() + "/network.key";
  write_file_atomically(path + "." + std::to_string(::getpid()), "half");  // in a container ids begin anew
  const SharedKey made = SharedKey::read_or_make(path);
  CHECK(SharedKey::read(path).bytes() == made.bytes());
}

}  // namespace
}  // namespace estrain::net
