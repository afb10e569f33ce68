// Memory that is refused to a worker, where a library hides it and goes on with other arithmetic.

#include <doctest/doctest.h>

#include <filesystem>

#include "job.h"
#include "job_specs.h"
#include "run_files.h"
#include "setting.h"

namespace estrain::testing {
namespace {

TEST_CASE(
    "MKL's buffers are refused: the run ends without a step computed in another way, says why, and goes on later") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", mlp_job() + "[recovery]\nretries = 1\n");
  const std::string run = folder / "run", whole = folder / "whole", refused = folder / "refused";
  Ended ended;
  {
    const Setting where("ESTRAIN_TEST_REFUSED", refused);
    const Setting preload("LD_PRELOAD", ESTRAIN_REFUSES_MKL);
    ended = estrain({"train", spec, "--run", run});
  }
  INFO(ended.shown());
  REQUIRE_MESSAGE(std::filesystem::exists(refused), "MKL asked for no buffer");
  CHECK(ended.code == 1);
  CHECK(ended.says("memory was refused to this worker"));
  const std::vector<Json> faults = events(run, "fault");
  REQUIRE(!faults.empty());
  for (const Json& fault : faults) CHECK(fault.at("cause") == "cpu_out_of_memory");
  CHECK(metric_steps(run).empty());

  REQUIRE(estrain({"train", "--resume", "--run", run}).code == 0);
  REQUIRE(estrain({"train", spec, "--run", whole}).code == 0);
  CHECK(difference(run, whole).text == "");
}

}  // namespace
}  // namespace estrain::testing
