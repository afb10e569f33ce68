// logging.trace: steps that workers record operator by operator.

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "job.h"
#include "job_specs.h"
#include "run_files.h"

namespace estrain::testing {
namespace {

std::set<std::string> names_in(const std::string& trace) {
  std::ifstream file(trace);
  const Json trace_events = Json::parse(file).at("traceEvents");
  std::set<std::string> names;
  for (const Json& event : trace_events) names.insert(event.value("name", ""));
  return names;
}

TEST_CASE("a trace has the operators of its steps and ESTs, worker by worker, and leaves none in the bits") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", lenet_job());
  const std::string plain = train_on(folder, spec, "2");
  const std::string traced = train_on(folder, spec, "2", {"--set", "logging.trace=[2, 3]"});
  CHECK(difference(plain, traced).text == "");
  CHECK_FALSE(std::filesystem::exists(plain + "/traces"));
  const int64_t first_est[] = {0, 4};
  for (const int worker : {0, 1}) {
    CAPTURE(worker);
    const std::set<std::string> names = names_in(traced + "/traces/step-2-worker-" + std::to_string(worker) + ".json");
    for (const char* there :
         {"ProfilerStep#2", "ProfilerStep#3", "aten::convolution", "ConvolutionBackward0", "update"})
      CHECK_MESSAGE(names.contains(there), there);
    for (const char* not_there : {"ProfilerStep#1", "ProfilerStep#4"})
      CHECK_MESSAGE(!names.contains(not_there), not_there);
    for (int64_t est = 0; est < 8; ++est) {
      const bool own = est >= first_est[worker] && est < first_est[worker] + 4;
      for (const char* pass : {": forward", ": backward"})
        CHECK(names.contains("EST " + std::to_string(est) + pass) == own);
    }
  }
}

TEST_CASE("a trace that the end of the job cuts short has what there was") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", lenet_job());
  const Words until_3 = {"--set", "logging.trace=[2, 9]", "--set", "train.steps=3"};
  const std::string run = train_on(folder, spec, "2", until_3);
  const std::set<std::string> names = names_in(run + "/traces/step-2-worker-0.json");
  CHECK(names.contains("ProfilerStep#3"));
  CHECK_FALSE(names.contains("ProfilerStep#4"));
}

TEST_CASE("a trace of steps that there are not is refused") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", lenet_job());
  for (const char* steps : {"[3, 2]", "[0, 1]", "[7]", "[1000000, 1000001]"}) {
    CAPTURE(steps);
    const Ended ended =
        estrain({"train", spec, "--run", folder / "refused", "--set", std::string("logging.trace=") + steps});
    INFO(ended.shown());
    CHECK(ended.code == 2);
    CHECK(ended.shown().find("logging.trace") != std::string::npos);
  }
}

}  // namespace
}  // namespace estrain::testing
