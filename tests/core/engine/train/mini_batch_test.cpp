#include <doctest/doctest.h>

#include <algorithm>

#include "core/data/reading/loader.h"
#include "core/engine/device/cpu.h"
#include "core/engine/est/generator.h"
#include "core/engine/train/initial_state.h"
#include "core/engine/train/workplace/workplace.h"
#include "core/job/spec/parsing/parse.h"

namespace estrain::train {
namespace {

constexpr int64_t kEsts = 2, kSteps = 7;

// A capture computes nothing, a replay runs the captured work.
class Recorder : public device::CaptureBackend {
 public:
  explicit Recorder(int& replays) : replays_(replays) {}
  void beside(const std::function<void()>& work) override { work(); }
  std::unique_ptr<device::Capture> capture(const std::function<void()>& work) override {
    return std::make_unique<Replay>(replays_, work);
  }

 private:
  struct Replay : device::Capture {
    Replay(int& count, std::function<void()> captured) : replays(count), work(std::move(captured)) {}
    void replay() override {
      ++replays;
      work();
    }
    int& replays;
    std::function<void()> work;
  };
  int& replays_;
};

class CapturingCpu : public device::CpuDevice {
 public:
  device::CapturedPasses* captured_passes() override { return &passes_; }
  int replays = 0;

 private:
  device::CapturedPasses passes_{std::make_unique<Recorder>(replays)};
};

spec::JobSpec job_of(const std::string& model, const std::string& precision) {
  const std::string dropout = model == "mlp" ? "\ndropout = 0.2" : "";
  return spec::parse_text("[job]\nests = 2\nprecision = \"" + precision + "\"\n[model]\nname = \"" + model + "\"" +
                              dropout + "\n[data]\nshape = [3, 32, 32]\nsamples = 16\nbatch = 3\n[train]\nsteps = 7\n",
                          "test");
}

// Results of the mini-batches of a job's first steps, in order: the loss, every gradient, the streams' digest.
// `restarted`: with streams seeded again from another state.
std::vector<std::vector<float>> results_on(device::ComputeDevice& device, const spec::JobSpec& spec,
                                           bool restarted = false) {
  const data::DataPair data = data::open(spec.data, spec.model.context, 0, spec.model.classes);
  TrainingJob job(spec, data, true);
  const UniqueFd memory_fd = comm::JobMemory::create();
  comm::JobMemory memory(memory_fd.get());
  memory.lay_out(job.memory_plan());
  write_first_state(job, memory.state_of(Step(0)));
  BoundModel model(job.network(), job.places(), memory, device);
  est::GradientHooks hooks(job.network().parameters(), device);
  Workplace place{device, job, memory, model, hooks, -1};
  if (restarted) {
    for (VirtualRank rank; rank.value < kEsts; ++rank)
      est::seeded_generator_state(1000, job.places().ests.generator(memory.state_of(Step(0)), rank));
    place.seeded_step = Step(0);
  }
  const std::vector<std::byte> committed(memory.state_of(Step(0)), memory.state_of(Step(0)) + job.places().bytes);
  job.network().model().train();
  model.read_parameters_of(Step(0));
  data::LoaderOptions options;
  options.steps = kSteps;
  data::Loader loader(*data.train, job.samples().sampler(), {VirtualRank(0), VirtualRank(kEsts)}, Step(0), options);
  BatchFeed feed(loader, device);
  std::vector<std::vector<float>> results;
  for (int64_t i = 0; i < kSteps * kEsts; ++i) {
    const DeviceBatch batch = feed.next();
    std::vector<std::vector<float>> gradients(job.places().model.num_parameters());
    const auto sink = [&](size_t parameter, const float* gradient) {
      if (gradient != nullptr) gradients[parameter].assign(gradient, gradient + job.places().model.elements(parameter));
    };
    const torch::Tensor loss = end_pass(begin_pass(place, batch, Step(0)),
                                        {[&](const torch::Tensor& with_graph) { hooks.backward(with_graph, sink); },
                                         [&](const Gradients& all) { hooks.hand_over(all, sink); }});
    CHECK_FALSE(loss.requires_grad());
    results.push_back({loss.item<float>(), static_cast<float>(save_streams(place, Step(0), batch.rank) >> 40)});
    results.insert(results.end(), gradients.begin(), gradients.end());
  }
  CHECK(std::equal(committed.begin(), committed.end(), memory.state_of(Step(0))));
  return results;
}

TEST_CASE("mini-batches that a device replays give what those give that run operator by operator") {
  for (const char* model : {"mlp", "lenet", "resnet18"}) {
    for (const char* precision : {"fp32", "bf16"}) {
      CAPTURE(model);
      CAPTURE(precision);
      const spec::JobSpec spec = job_of(model, precision);
      device::CpuDevice plain;
      CapturingCpu capturing;
      CHECK(results_on(capturing, spec) == results_on(plain, spec));
      CHECK(capturing.replays > 2);
    }
  }
}

TEST_CASE("streams that are seeded anew in a step draw as from their seeds; those of the state stay") {
  device::CpuDevice device;
  const spec::JobSpec spec = job_of("mlp", "fp32");
  CHECK(results_on(device, spec, true) == results_on(device, spec));
}

}  // namespace
}  // namespace estrain::train
