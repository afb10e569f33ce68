#include "core/engine/train/job/trial.h"

#include <ATen/ops/cumsum.h>
#include <doctest/doctest.h>

#include <memory>
#include <utility>

#include "core/base/error.h"
#include "core/engine/device/cpu.h"
#include "core/engine/operators/portable.h"
#include "core/engine/train/job/batch_tensors.h"
#include "core/engine/train/probe.h"
#include "core/job/spec/parsing/parse.h"
#include "tests/error_of.h"

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

// A job on the CPU with the portable kernels, as a worker has it before the trial.
struct TriedJob {
  explicit TriedJob(spec::JobSpec of)
      : spec(std::move(of)),
        data(data::open(spec.data, spec.model.context, 0, spec.model.classes)),
        job(spec, data, true) {
    job.network().model().train();
  }
  std::vector<operators::OperatorUse> scan(const data::LoadedBatch& batch) {
    return scan_operators({job, hooks, cpu}, batch, portable.names());
  }

  spec::JobSpec spec;
  data::DataPair data;
  device::CpuDevice cpu;
  operators::PortableOperators portable{cpu};
  TrainingJob job;
  est::GradientHooks hooks{job.network().parameters(), cpu};
};

TEST_CASE("every model of the zoo is covered at D2") {
  for (const char* model : {"mlp", "lenet", "resnet18", "resnet50", "vgg11", "gpt"}) {
    CAPTURE(model);
    TriedJob tried(job_of(model));
    const auto uses = tried.scan(tried.job.samples().first_batch());
    CHECK_NOTHROW(refuse_uncovered(uses));
    const bool replaced = std::ranges::any_of(
        uses, [](const auto& use) { return use.coverage == operators::Coverage::replaced && !use.layers.empty(); });
    CHECK(replaced);
    REQUIRE(tried.job.timetable().evaluates());
    CHECK(
        std::ranges::any_of(uses, [](const auto& use) { return use.name == "aten::argmax"; }));  // only in evaluations
  }
}

TEST_CASE("at D2 mixed images are tried as they are trained and as they are evaluated, with their labels") {
  spec::JobSpec spec = job_of("mlp");
  spec.data.mixup = 0.5;
  TriedJob tried(spec);
  const data::LoadedBatch batch = tried.job.samples().first_batch();
  REQUIRE(batch.mix());
  CHECK(as_tensors(batch, tried.cpu).target.sizes() == torch::IntArrayRef({2, 10}));
  CHECK(as_evaluated_tensors(batch, tried.cpu).target.sizes() == torch::IntArrayRef({2}));
  const auto uses = tried.scan(batch);
  CHECK_NOTHROW(refuse_uncovered(uses));
  CHECK(std::ranges::any_of(uses, [](const auto& use) { return use.name == "aten::argmax"; }));
}

TEST_CASE("uncovered operators are refused by name and layer") {
  using operators::Coverage, operators::OnGpu;
  const std::vector<operators::OperatorUse> uses = {
      {"aten::cumsum", Coverage::uncovered, "", OnGpu::repeatable, 1, {"stem", "head"}},
      {"aten::mm", Coverage::uncovered, "on Double", OnGpu::repeatable, 1, {}},
      {"aten::relu", Coverage::exact, "", OnGpu::repeatable, 1, {}}};
  try {
    refuse_uncovered(uses);
    FAIL("not refused");
  } catch (const Error& error) {
    CHECK(error.fault() == Fault::infeasible);
    CHECK(error.message() ==
          "D2 cannot be had with this model: no portable kernel for aten::cumsum (stem, head); aten::mm on Double");
  }
}

// ResNet-18 has single pixels in its last stage for images of 32 x 32.
struct Begun {
  Begun(const std::string& data, const std::string& steps, const std::string& model = "resnet18")
      : spec(spec::parse_text("[job]\nests = 2\n[model]\nname = \"" + model + "\"\n[data]\nformat = \"synthetic\"\n" +
                                  data + "\n[train]\n" + steps + "\n",
                              "test")),
        pair(data::open(spec.data, 0, 0, spec.model.classes)),
        job(spec, pair, true),
        hooks(job.network().parameters(), cpu) {
    job.network().model().train();
  }
  std::optional<int64_t> shortest(int64_t step) const { return shortest_batch(job, Step(step)); }
  std::optional<Error> refusal(int64_t step = 0) { return refusal_of_short_batch({job, hooks, cpu}, Step(step)); }

  spec::JobSpec spec;
  data::DataPair pair;
  device::CpuDevice cpu;
  TrainingJob job;
  est::GradientHooks hooks;
};

TEST_CASE("the shortest mini-batch of the steps that are left") {
  const Begun some("samples = 10\nbatch = 2\nshape = [4]", "steps = 8", "mlp");  // 2, 2, 1; 2, 2, 1; 2, 2
  CHECK(some.shortest(0) == 1);
  CHECK(some.shortest(5) == 1);
  CHECK(some.shortest(6) == 2);
  CHECK(some.shortest(7) == 2);
  CHECK_FALSE(some.shortest(8).has_value());
  CHECK(Begun("samples = 10\nbatch = 2\nshape = [4]", "steps = 2", "mlp").shortest(0) == 2);
  CHECK(Begun("samples = 10\nbatch = 2\nshape = [4]\ndrop_last = true", "epochs = 3", "mlp").shortest(0) == 2);
  CHECK(Begun("samples = 12\nbatch = 3\nshape = [4]", "epochs = 3", "mlp").shortest(0) == 3);
  CHECK(Begun("samples = 10\nbatch = 4\nshape = [4]", "epochs = 3", "mlp").shortest(0) == 1);
  CHECK(Begun("samples = 2\nbatch = 4\nshape = [4]", "epochs = 3", "mlp").shortest(1) == 1);
}

TEST_CASE("a last mini-batch of one sample is refused where batch normalisation sees single pixels, and only there") {
  Begun refused("samples = 10\nbatch = 2\nshape = [3, 32, 32]", "epochs = 2");
  const std::optional<Error> error = refused.refusal();
  REQUIRE(error.has_value());
  CHECK(error->fault() == Fault::infeasible);
  CHECK(error->message().find("the last mini-batch of an epoch has one sample (10 training samples over 2 ESTs "
                              "(job.ests) are 5 each, data.batch = 2): batch normalisation") == 0);
  CHECK(error->advice().find("data.drop_last = true") != std::string::npos);
  CHECK(refused.refusal(3).has_value());
  CHECK_FALSE(refused.refusal(6).has_value());  // nothing is left to train
  for (const char* data :
       {"samples = 10\nbatch = 2\nshape = [3, 64, 64]", "samples = 12\nbatch = 2\nshape = [3, 32, 32]",
        "samples = 10\nbatch = 2\nshape = [3, 32, 32]\ndrop_last = true"}) {
    CAPTURE(data);
    CHECK_FALSE(Begun(data, "epochs = 2").refusal().has_value());
  }
  CHECK_FALSE(Begun("samples = 10\nbatch = 2\nshape = [4]", "epochs = 2", "mlp").refusal().has_value());
}

TEST_CASE("mini-batches that are all of one sample say whether the batch or the share of an EST is to blame") {
  const std::optional<Error> batch = Begun("samples = 10\nbatch = 1\nshape = [3, 32, 32]", "epochs = 2").refusal();
  REQUIRE(batch.has_value());
  CHECK(batch->message().find("every mini-batch has one sample") == 0);
  CHECK(batch->advice() == "set data.batch to 2 or more");
  const std::optional<Error> share = Begun("samples = 2\nbatch = 4\nshape = [3, 32, 32]", "epochs = 2").refusal();
  REQUIRE(share.has_value());
  CHECK(share->advice() == "use fewer ESTs or more data");
}

}  // namespace

}  // namespace estrain::train
