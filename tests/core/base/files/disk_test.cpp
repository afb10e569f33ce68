#include "core/base/files/disk.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include "core/base/files/files.h"
#include "tests/error_of.h"
#include "tests/power_cut.h"
#include "tests/scratch_folder.h"

namespace estrain {
namespace {

TEST_CASE("a power cut at any moment of an atomic write leaves the old file or the new one") {
  const ScratchFolder folder;
  std::string before, now;
  PowerCutDisk disk(folder.path(), [&](const std::string& left) {
    const auto found = read_file_if_present(left + "/file");
    CHECK((found.value_or("") == before || found.value_or("") == now));
  });
  for (const std::string& content : {std::string("first"), std::string(10'000, 'x'), std::string("third")}) {
    now = content;
    write_file_atomically(folder / "file", content, disk);
    before = content;
    disk.cut();
  }
  CHECK(disk.cuts() > 50);
}

// A fake disk must be used: a call that is not made cannot fail.
TEST_CASE("files and folders are really synced: what cannot be is an error") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const UniqueFd reader(ends[0]), writer(ends[1]);
  const Error error = error_of([&] { real_disk().sync_file(writer.get(), "a pipe"); });
  CHECK(error.fault() == Fault::io);
  CHECK(error.message() == "cannot write a pipe: Invalid argument");
  CHECK(error_of([] { real_disk().sync_folder("/proc"); }).message() == "cannot sync folder /proc: Invalid argument");
}

TEST_CASE("removing what is not there is fine, renaming it is not") {
  const ScratchFolder folder;
  real_disk().remove(folder / "none");
  CHECK(error_of([&] { real_disk().rename(folder / "none", folder / "other"); }).fault() == Fault::io);
  real_disk().make_link("target", folder / "link");
  CHECK(std::filesystem::read_symlink(folder / "link") == "target");
}

}  // namespace
}  // namespace estrain
