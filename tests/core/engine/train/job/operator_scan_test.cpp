#include "core/engine/train/job/operator_scan.h"

#include <ATen/ops/cumsum.h>
#include <doctest/doctest.h>

#include <memory>

#include "core/base/error.h"
#include "core/engine/device/cpu_device.h"
#include "core/engine/operators/portable.h"
#include "core/engine/train/probe.h"
#include "core/job/spec/parsing/parse.h"

namespace estrain::train {
namespace {

spec::JobSpec job_of(const std::string& model) {
  const bool text = model == "gpt", small = model == "mlp" || model == "lenet";
  const char* data = text    ? "format = \"text\"\npath = \"" ESTRAIN_SOURCE_DIR "/README.md\"\n"
                     : small ? "format = \"synthetic\"\nsamples = 16\nshape = [1, 28, 28]\n"
                             : "format = \"synthetic\"\nsamples = 16\nshape = [3, 32, 32]\n";
  return spec::parse_text("[job]\ndeterminism = \"D2\"\n[model]\nname = \"" + model + "\"\n[data]\nbatch = 2\n" + data +
                              "[train]\nsteps = 1\nlabel_smoothing = 0.1\n",
                          "test");
}

TEST_CASE("every model of the zoo is covered at D2") {
  for (const char* model : {"mlp", "lenet", "resnet18", "resnet50", "vgg11", "gpt"}) {
    CAPTURE(model);
    const spec::JobSpec spec = job_of(model);
    const data::DataPair data = data::open(spec.data, spec.model.context, 0, spec.model.classes);
    device::CpuDevice cpu;
    const operators::PortableOperators portable(cpu);
    Job job(spec, data, true);
    est::GradientHooks hooks(job.network().parameters(), cpu);
    job.network().model().train();
    const auto uses = scan_operators({job, hooks, cpu}, job.samples().first_batch(), portable.names());
    CHECK_NOTHROW(refuse_uncovered(uses));
    const bool replaced = std::ranges::any_of(
        uses, [](const auto& use) { return use.coverage == operators::Coverage::replaced && !use.layers.empty(); });
    CHECK(replaced);
    REQUIRE(job.timetable().evaluates());
    CHECK(
        std::ranges::any_of(uses, [](const auto& use) { return use.name == "aten::argmax"; }));  // only in evaluations
  }
}

TEST_CASE("uncovered operators are refused by name and layer") {
  const std::vector<operators::OperatorUse> uses = {
      {"aten::cumsum", operators::Coverage::uncovered, "", 1, {"stem", "head"}},
      {"aten::mm", operators::Coverage::uncovered, "on Double", 1, {}},
      {"aten::relu", operators::Coverage::exact, "", 1, {}}};
  try {
    refuse_uncovered(uses);
    FAIL("not refused");
  } catch (const Error& error) {
    CHECK(error.fault() == Fault::infeasible);
    CHECK(error.message() ==
          "D2 cannot be had with this model: no portable kernel for aten::cumsum (stem, head); aten::mm on Double");
  }
}

}  // namespace
}  // namespace estrain::train
