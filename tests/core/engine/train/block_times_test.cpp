#include "core/engine/train/block_times.h"

#include <ATen/Parallel.h>
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <thread>

#include "core/engine/device/cpu.h"
#include "core/engine/model/block_watch.h"
#include "core/engine/train/job/batch_tensors.h"
#include "core/engine/train/job/job.h"
#include "core/job/spec/parsing/parse.h"

namespace estrain::train {
namespace {

using namespace std::chrono_literals;

spec::JobSpec timed_spec(const std::string& model) {
  const bool is_text = model == "gpt", is_small = model == "mlp" || model == "lenet";
  const std::string data = is_text    ? "format = \"text\"\npath = \"" ESTRAIN_SOURCE_DIR "/README.md\"\n"
                           : is_small ? "format = \"synthetic\"\nsamples = 16\nshape = [1, 28, 28]\n"
                                      : "format = \"synthetic\"\nsamples = 16\nshape = [3, 32, 32]\n";
  const std::string sizes = is_text ? "layers = 2\nheads = 2\nwidth = 16\n" : model == "mlp" ? "hidden = [5]\n" : "";
  return spec::parse_text(
      "[model]\nname = \"" + model + "\"\n" + sizes + "[data]\nbatch = 2\n" + data + "[train]\nsteps = 1\n", "test");
}

using GradientsByParameter = std::map<size_t, torch::Tensor>;

// Passes of a model's mini-batch under a timer, as in a worker's steps.
struct TimedModel {
  explicit TimedModel(const std::string& model, BlockTimer::Options options = {})
      : spec(timed_spec(model)),
        data(data::open(spec.data, spec.model.context, 0, spec.model.classes)),
        job(spec, data, true),
        timer(
            cpu, job.network().parameters(), pulse, [](const torch::Tensor& loss) { loss.backward(); }, options),
        hooks(job.network().parameters(), cpu, [this](const torch::Tensor& loss) { timer.backward(loss); }),
        batch(job.samples().first_batch()) {
    at::set_num_threads(1);
    job.network().model().train();
  }

  // `take`: called for each gradient, as a worker's sink.
  GradientsByParameter pass(const std::function<void(size_t)>& take = [](size_t) {}) {
    torch::manual_seed(5);
    const model::BlockWatch watch(
        [this](std::string_view name, const torch::Tensor& activation) { return timer.begin_block(name, activation); });
    GradientsByParameter gradients;
    const torch::Tensor loss = job.network().model().loss(as_tensors(batch, cpu));
    hooks.backward_on_device(loss, [&](size_t parameter, const torch::Tensor& gradient) {
      if (!gradient.defined()) return;
      take(parameter);
      torch::Tensor& sum = gradients[parameter];
      sum = sum.defined() ? sum + gradient : gradient.clone();
    });
    return gradients;
  }

  spec::JobSpec spec;
  data::DataPair data;
  device::CpuDevice cpu;
  comm::WorkerPulse pulse{};
  TrainingJob job;
  BlockTimer timer;
  est::GradientHooks hooks;
  data::LoadedBatch batch;
};

TEST_CASE("block by block, a pass has the bits of an undivided pass") {
  for (const char* model : {"mlp", "lenet", "resnet18", "gpt"}) {
    CAPTURE(model);
    TimedModel timed(model);
    const GradientsByParameter undivided = timed.pass(), by_blocks = timed.pass();
    REQUIRE(undivided.size() == timed.job.network().parameters().size());
    REQUIRE(by_blocks.size() == undivided.size());
    for (const auto& [parameter, gradient] : undivided) CHECK(torch::equal(by_blocks.at(parameter), gradient));
  }
}

TEST_CASE("a timer is done after two rounds at the earliest, and knows names and bytes of the blocks") {
  int done = 0, mini_batches = 0;
  TimedModel timed("mlp", {.ests = 2, .seconds = 0, .updates_in_hooks = true, .when_done = [&done] { ++done; }});
  for (; done == 0 && mini_batches < 100; ++mini_batches) timed.pass();
  CHECK(mini_batches == 12);  // two steps without timing, two undivided, two by blocks
  timed.pass();
  const comm::BlockTimes times = timed.timer.times();
  CHECK(done == 1);
  CHECK(times.ests == 2);
  CHECK(times.rounds == 2);
  CHECK(times.step_seconds > 0);
  CHECK(times.sum_of_blocks() > 0);
  REQUIRE(times.blocks.size() == 2);
  CHECK(times.blocks[0].name == "layers.0");
  CHECK(times.blocks[1].name == "layers.1");
  CHECK(times.blocks[0].output_bytes == 2 * 5 * 4);
  CHECK(times.blocks[1].output_bytes == 0);
  CHECK(times.blocks[0].parameter_bytes == (784 * 5 + 5) * 4);
  CHECK(times.blocks[1].parameter_bytes == (5 * 10 + 10) * 4);
  for (const comm::TimedBlock& block : times.blocks) {
    CHECK(block.forward > 0);
    CHECK(block.backward > 0);
  }

  // Longer than the least if seconds are asked for.
  done = mini_batches = 0;
  TimedModel longer("mlp", {.ests = 1, .seconds = 0.05, .updates_in_hooks = true, .when_done = [&done] { ++done; }});
  for (; done == 0 && mini_batches < 1000; ++mini_batches)
    longer.pass([](size_t) { std::this_thread::sleep_for(1ms); });
  CHECK(mini_batches > 6);
}

TEST_CASE("a tied parameter counts once, in its first block") {
  TimedModel timed("gpt");
  timed.pass();
  timed.pass();
  uint64_t all = 0, counted = 0;
  for (const torch::Tensor& parameter : timed.job.network().parameters()) all += parameter.nbytes();
  const comm::BlockTimes times = timed.timer.times();
  for (const comm::TimedBlock& block : times.blocks) counted += block.parameter_bytes;
  CHECK(counted == all);
  CHECK(times.blocks.front().name == "embedding");
  CHECK(times.blocks.back().name == "head");
  CHECK(times.blocks.back().parameter_bytes == 2 * 16 * 4);  // of the norm
}

TEST_CASE("the time of the update is that of a step's last mini-batch, or what follows, by the parameters' bytes") {
  const auto nothing = [] {};
  TimedModel in_hooks("mlp", {.ests = 2, .seconds = 0, .updates_in_hooks = true, .when_done = nothing});
  for (int i = 0; i < 12; ++i)
    in_hooks.pass([i](size_t parameter) {
      if (i % 2 == 1 && parameter == 0) std::this_thread::sleep_for(60ms);
    });
  const comm::BlockTimes hooked = in_hooks.timer.times();
  CHECK(hooked.blocks[0].update > 0.03);
  CHECK(hooked.blocks[1].update < 0.03);
  CHECK(hooked.blocks[0].backward < 0.03);

  for (const bool waits : {false, true}) {
    CAPTURE(waits);
    TimedModel behind("mlp", {.ests = 2, .seconds = 0, .updates_in_hooks = false, .when_done = nothing});
    for (int i = 0; i < 14; ++i) {
      behind.pass();
      if (i % 2 == 0) continue;
      std::this_thread::sleep_for(20ms);
      if (waits) behind.pulse.waited_for_data(10'000'000'000);  // no less than the sleep
    }
    const comm::BlockTimes times = behind.timer.times();
    const double first = times.blocks[0].update, second = times.blocks[1].update;
    CHECK(first + second >= (waits ? 0 : 0.02));
    if (waits) CHECK(first + second == 0);
    CHECK(first * 240 == doctest::Approx(second * (784 * 5 + 5) * 4));
  }
}

TEST_CASE("more blocks than a message holds are joined; one whose activation has no gradient has no backward pass") {
  device::CpuDevice cpu;
  const std::vector<torch::Tensor> parameters = {torch::ones({3}).requires_grad_(true)};
  const comm::WorkerPulse pulse{};
  BlockTimer timer(cpu, parameters, pulse, [](const torch::Tensor& loss) { loss.backward(); }, {});
  constexpr int kBlocks = 1000;
  for (int pass = 0; pass < 6; ++pass) {
    torch::Tensor x = torch::ones({3});
    timer.begin_block("block 0", {});
    for (int i = 1; i < kBlocks; ++i) {
      x = timer.begin_block(fmt::format("block {}", i), x * 2);
      if (i == 1) x = x * parameters[0];
    }
    timer.backward(x.sum());
    CHECK(parameters[0].grad().defined());
    parameters[0].mutable_grad().reset();
  }
  const comm::BlockTimes times = timer.times();
  REQUIRE(times.blocks.size() == 334);
  CHECK(times.blocks[0].name == "block 0 to block 2");
  CHECK(times.blocks[0].parameter_bytes == 12);
  CHECK(times.blocks[1].parameter_bytes == 0);
  CHECK(times.blocks[1].output_bytes == 12);
  CHECK(times.blocks.back().name == "block 999");
  CHECK(times.blocks.back().output_bytes == 0);
}

}  // namespace
}  // namespace estrain::train
