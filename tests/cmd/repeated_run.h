#pragma once
// Jobs with batches that a pool may change, and repeats of such jobs.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

#include "command.h"
#include "core/base/files/files.h"
#include "edited_file.h"
#include "job_specs.h"
#include "run_files.h"
#include "tests/scratch_folder.h"

namespace estrain::testing {

// Epochs of 125 steps with the batch of 32, without an end.
inline std::string endless_epochs() {
  const std::string text = replaced(long_job(), "steps = 1000000", "epochs = 1000000");
  return replaced(text, "samples = 480000", "samples = 24000") + "[resources]\ndevices = \"1\"\n";
}

// Repeats the run with the changes on record, up to the step at which the first run was stopped, and compares both.
inline void check_repeat(const ScratchFolder& folder, const std::string& run) {
  const std::string spec = folder.write("repeat.toml", read_file(run + "/job.toml"));
  const int64_t last = events(run, "stopped").back().at("step").get<int64_t>();
  edit(spec, "epochs = 1000000", fmt::format("steps = {}", last));
  const std::string other = folder / "repeat";
  const Ended repeated = estrain({"train", spec, "--run", other, "--devices", "2"});
  INFO(repeated.shown());
  REQUIRE(repeated.code == 0);
  CHECK(difference(run, other).text == "");
  const Ended verified = estrain({"verify", run, other});
  INFO(verified.shown());
  CHECK(verified.code == 0);
  CHECK_FALSE(verified.says("the change logs differ"));
}

}  // namespace estrain::testing
