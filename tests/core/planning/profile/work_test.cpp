#include "core/planning/profile/work.h"

#include <doctest/doctest.h>

#include <functional>

#include "sample_work.h"
#include "tests/error_of.h"

namespace estrain::profile {
namespace {

struct Change {
  const char* what;
  std::function<void(spec::JobSpec&)> make;
};

TEST_CASE("every key that changes how long a mini-batch takes is a field of its own") {
  const spec::JobSpec job = some_job();
  const Work before = describe_work(job, "cpu:avx2", some_host());
  const Change changes[] = {
      {"model.name", [](auto& spec) { spec.model.name = "resnet18"; }},
      {"model.classes", [](auto& spec) { spec.model.classes = 11; }},
      {"data.format", [](auto& spec) { spec.data.format = spec::DataFormat::cifar10; }},
      {"data.shape",
       [](auto& spec) {
         spec.data.shape = {1, 32, 32};
       }},
      {"data.channels", [](auto& spec) { spec.data.channels = 3; }},
      {"data.resize",
       [](auto& spec) {
         spec.data.resize = {32, 32};
       }},
      {"data.pad", [](auto& spec) { spec.data.pad = 2; }},
      {"data.crop",
       [](auto& spec) {
         spec.data.crop = {24, 24};
       }},
      {"data.flip", [](auto& spec) { spec.data.flip = true; }},
      {"data.normalised", [](auto& spec) { spec.data.mean = {0.5}; }},
      {"data.batch", [](auto& spec) { spec.data.batch = 17; }},
      {"data.readers", [](auto& spec) { spec.data.readers = 2; }},
      {"optimizer.name", [](auto& spec) { spec.optimizer.name = spec::OptimizerKind::adam; }},
      {"optimizer.momentum", [](auto& spec) { spec.optimizer.momentum = 0.9; }},
      {"clipping", [](auto& spec) { spec.train.clip_grad_norm = 1; }},
      {"determinism", [](auto& spec) { spec.job.determinism = spec::Determinism::d1; }},
      {"precision", [](auto& spec) { spec.job.precision = spec::Precision::bf16; }},
      {"threads", [](auto& spec) { spec.job.threads = 2; }},
  };
  for (const Change& change : changes) {
    CAPTURE(change.what);
    spec::JobSpec other = job;
    change.make(other);
    const Work after = describe_work(other, "cpu:avx2", some_host());
    CHECK(after != before);
    CHECK(std::ranges::any_of(after.fields, [&](const auto& field) {
      return field.first == change.what && std::ranges::find(before.fields, field) == before.fields.end();
    }));
  }
}

TEST_CASE("kernels, device, processor, cores and build are fields") {
  spec::JobSpec job = some_job();
  job.job.determinism = spec::Determinism::d1;
  job.job.kernels = spec::Kernels::torch;
  spec::JobSpec portable = job;
  portable.job.kernels = spec::Kernels::portable;
  spec::JobSpec graphs = job;
  graphs.job.cuda_graphs = spec::CudaGraphs::automatic;
  const MachineFacts host = some_host();
  CHECK(describe_work(graphs, "cuda:0", host) != describe_work(job, "cuda:0", host));
  CHECK(describe_work(graphs, "cpu", host) == describe_work(job, "cpu", host));
  const Work before = describe_work(job, "cpu", host);
  CHECK(describe_work(job, "cpu", host) == before);
  CHECK(describe_work(portable, "cpu", host) != before);
  CHECK(describe_work(job, "cpu:sse", host) != before);
  CHECK(describe_work(job, "cpu", {"Other CPU", host.cores, host.build}) != before);
  CHECK(describe_work(job, "cpu", {host.cpu, 5, host.build}) != before);
  CHECK(describe_work(job, "cpu", {host.cpu, host.cores, "1.0 abd"}) != before);
}

TEST_CASE("a GPU is to its speed what its model is, whichever number it has") {
  MachineFacts host = some_host();
  CHECK(host.model_of("cuda:1") == "cuda:1");
  host.gpus = {"NVIDIA A100", "NVIDIA L4", "NVIDIA A100"};
  CHECK(host.model_of("cuda:0") == "NVIDIA A100");
  CHECK(host.model_of("cuda:1") == "NVIDIA L4");
  CHECK(host.model_of("cuda:3") == "cuda:3");
  CHECK(host.model_of("cpu") == "cpu");
  CHECK(host.model_of("NVIDIA L4") == "NVIDIA L4");
  spec::JobSpec job = some_job();
  job.job.determinism = spec::Determinism::d1;
  CHECK(describe_work(job, "cuda:0", host) == describe_work(job, "cuda:2", host));
  CHECK(describe_work(job, "cuda:0", host) != describe_work(job, "cuda:1", host));
}

TEST_CASE("sizes of a gpt are fields; what is no matter of speed is none") {
  spec::JobSpec gpt = some_job();
  gpt.model.name = "gpt";
  gpt.data.format = spec::DataFormat::text;
  const Work before = describe_work(gpt, "cpu", some_host());
  for (int64_t spec::ModelSection::*size : {&spec::ModelSection::layers, &spec::ModelSection::heads,
                                            &spec::ModelSection::width, &spec::ModelSection::context}) {
    spec::JobSpec other = gpt;
    other.model.*size *= 2;
    CHECK(describe_work(other, "cpu", some_host()) != before);
  }
  spec::JobSpec same = gpt;
  same.job.name = "other";
  same.job.seed = 7;
  same.job.ests = 12;
  same.optimizer.lr = 0.5;
  same.train.steps = 99;
  same.schedule.name = spec::ScheduleKind::cosine;
  same.data.path = "/elsewhere";
  same.checkpoint.every = 3;
  CHECK(describe_work(same, "cpu", some_host()) == before);
}

TEST_CASE("files are a field only while the spec leaves the shape of a sample to them") {
  spec::JobSpec job = some_job();
  job.data.format = spec::DataFormat::hdf5;
  job.data.path = "/data/a.h5";
  spec::JobSpec moved = job;
  moved.data.path = "/data/b.h5";
  CHECK(describe_work(job, "cpu", some_host()) != describe_work(moved, "cpu", some_host()));
  job.data.crop = moved.data.crop = {28, 28};
  CHECK(describe_work(job, "cpu", some_host()) == describe_work(moved, "cpu", some_host()));
}

TEST_CASE("what \"auto\" means must be known") {
  spec::JobSpec job = some_job();
  job.job.determinism = spec::Determinism::automatic;
  CHECK(error_of([&] { describe_work(job, "cpu", some_host()); }).fault() == Fault::bug);
}

TEST_CASE("a lone worker updates within its last mini-batch, unless gradients are clipped") {
  spec::JobSpec job = some_job();
  CHECK(updates_within_mini_batch(job, 1));
  CHECK_FALSE(updates_within_mini_batch(job, 2));
  job.train.clip_grad_norm = 1;
  CHECK_FALSE(updates_within_mini_batch(job, 1));
}

}  // namespace
}  // namespace estrain::profile
