#include "core/base/files/temporary_folder.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <optional>

#include "core/base/files/files.h"

namespace estrain {
namespace {

TEST_CASE("a temporary folder is named for its purpose, is this user's alone, and is another one each time") {
  const TemporaryFolder one("test"), other("test");
  CHECK(one.path() != other.path());
  CHECK(std::filesystem::path(one.path()).filename().string().starts_with("estrain-test-"));
  CHECK(std::filesystem::path(one.path()).parent_path() == std::filesystem::temp_directory_path());
  CHECK(std::filesystem::status(one.path()).permissions() == std::filesystem::perms::owner_all);
}

TEST_CASE("a temporary folder goes with all that is in it") {
  std::optional<TemporaryFolder> folder(std::in_place, "test");
  const std::string path = folder->path();
  make_folders(path + "/inner");
  write_file_atomically(path + "/inner/file", "text");
  folder.reset();
  CHECK(!std::filesystem::exists(path));
}

TEST_CASE("a temporary folder that is kept stays") {
  std::optional<TemporaryFolder> folder(std::in_place, "test");
  const std::string path = folder->path();
  folder->keep();
  folder.reset();
  CHECK(std::filesystem::is_directory(path));
  std::filesystem::remove_all(path);
}

}  // namespace
}  // namespace estrain
