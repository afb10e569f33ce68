#include "tests/power_cut.h"

#include <doctest/doctest.h>

#include "core/state/checkpoint/directory.h"
#include "tests/core/state/checkpoint/sample_state.h"
#include "tests/scratch_folder.h"

namespace estrain::checkpoint {
namespace {

TEST_CASE("a power cut at any moment leaves what was published, nothing damaged, and a `latest` that leads to it") {
  const ScratchFolder folder;
  int64_t published = -1;
  PowerCutDisk disk(folder.path(), [&](const std::string& left) {
    const NewestCheckpoint newest = CheckpointDirectory(left).newest_valid();
    CHECK(newest.skipped.empty());
    const bool has_latest = std::filesystem::is_symlink(left + "/latest");
    if (published >= 0) {
      REQUIRE(newest.file.has_value());
      CHECK(newest.file->meta().step >= Step(published));
      CHECK(has_latest);
    }
    if (!has_latest) return;
    const CheckpointFile latest = CheckpointFile::open(left + "/latest");
    CHECK_NOTHROW(latest.verify());
    CHECK(latest.meta().step >= Step(published));
  });
  CheckpointDirectory directory(folder.path(), disk);
  for (const int64_t step : {0, 10, 20, 30}) {
    const State state = filled(small_layout(), static_cast<uint64_t>(step));
    directory.publish(state.layout, state.bytes(), sample_meta(step));
    published = step;
    disk.cut();
    directory.prune(Step(step), 1);
    disk.cut();
  }
  CHECK(directory.steps() == std::vector<Step>{Step(0), Step(30)});
  CHECK(disk.cuts() > 200);
}

}  // namespace
}  // namespace estrain::checkpoint
