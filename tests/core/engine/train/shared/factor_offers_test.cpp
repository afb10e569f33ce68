#include "core/engine/train/shared/factor_offers.h"

#include <doctest/doctest.h>

#include "core/engine/device/cpu.h"
#include "core/job/spec/parsing/parse.h"

namespace estrain::train {
namespace {

std::vector<comm::ProbedFactors> factors_of(const std::string& model) {
  const spec::JobSpec spec =
      spec::parse_text("[job]\nests = 2\n[model]\n" + model +
                           "\n[data]\nshape = [1, 16, 16]\nsamples = 16\nbatch = 4\n[train]\nsteps = 3\n",
                       "test");
  const data::DataPair data = data::open(spec.data, spec.model.context, 0, spec.model.classes);
  device::CpuDevice device;
  TrainingJob job(spec, data, true);
  est::GradientHooks hooks(job.network().parameters(), device);
  job.network().model().train();
  return probe_factors({job, hooks, device}, job.samples().first_batch());
}

TEST_CASE("a probe measures the factors of each large matrix, for a full mini-batch") {
  const std::vector<comm::ProbedFactors> found = factors_of("name = \"mlp\"\nhidden = [96]");
  REQUIRE(found.size() == 2);
  // [10, 96], which the backward pass completes first, and [96, 256]: 4 rows of outputs and inputs.
  CHECK(found[0].gradient_bytes == 10 * 96 * 4);
  CHECK(found[0].bytes == 64 + 192 + 4 * 96 * 4);
  CHECK(found[1].gradient_bytes == 96 * 256 * 4);
  CHECK(found[1].bytes == 64 + 4 * 96 * 4 + 4 * 256 * 4);
  for (const comm::ProbedFactors& each : found) CHECK(each.seconds > 0);
}

TEST_CASE("a probe finds no factors of matrices that are too small") {
  const auto found = factors_of("name = \"mlp\"\nhidden = [2]");
  REQUIRE(found.size() == 1);
  CHECK(found[0].gradient_bytes == 2 * 256 * 4);  // not [10, 2]
}

}  // namespace
}  // namespace estrain::train
