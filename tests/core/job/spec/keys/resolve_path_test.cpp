#include <doctest/doctest.h>

#include <filesystem>

#include "core/job/spec/keys/codec.h"
#include "tests/scratch_folder.h"

namespace estrain::spec {
namespace {

namespace fs = std::filesystem;

TEST_CASE("absolute and empty paths stay as they are") {
  CHECK(resolve_path("", "/a").empty());
  CHECK(resolve_path("/x/../y", "/a") == "/x/../y");
}

TEST_CASE("a leading .. is the parent of the real folder, one behind a name is left to the file system") {
  const ScratchFolder scratch;
  const fs::path real = fs::canonical(scratch.path());
  fs::create_directories(real / "deep/configs");
  fs::create_directory_symlink(real / "deep/configs", real / "link");
  CHECK(resolve_path("../data", real / "link") == (real / "deep/data").string());
  CHECK(resolve_path("./.././../data", real / "link") == (real / "data").string());
  CHECK(resolve_path("a/../b", real / "link") == (real / "deep/configs/a/../b").string());
}

TEST_CASE("more .. than there are folders end at the root") { CHECK(resolve_path("../../../x", "/tmp") == "/x"); }

TEST_CASE("a folder is relative to the current one, and may be absent") {
  CHECK(resolve_path("x", "") == (fs::canonical(".") / "x").string());
  CHECK(resolve_path("x", "not there") == (fs::canonical(".") / "not there/x").string());
}

TEST_CASE("a leading ~ is a home folder, as in a shell") {
  const std::string home = ::getenv("HOME");
  CHECK(resolve_path("~", "/a") == home);
  CHECK(resolve_path("~/data/x", "/a") == home + "/data/x");
  CHECK(resolve_path("~root/data", "/a") == "/root/data");
  CHECK(resolve_path("./~/x", "/tmp") == "/tmp/~/x");
  CHECK(resolve_path("x/~", "/tmp") == "/tmp/x/~");
  CHECK(resolve_path("~no-such-user/x", "/tmp") == "/tmp/~no-such-user/x");
}

}  // namespace
}  // namespace estrain::spec
