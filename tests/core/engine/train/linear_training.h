#pragma once
// Steps of workers in this process with known gradients: an EST's loss is linear in the parameters, so the EST's
// gradient of a parameter is a slope times the EST's rank + 1.

#include <ATen/CPUGeneratorImpl.h>
#include <doctest/doctest.h>
#include <torch/types.h>

#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/engine/train/shared/shared_carrier.h"
#include "core/job/spec/parsing/parse.h"
#include "core/state/checkpoint/state/recorded_digests.h"
#include "tests/core/engine/train/worker_in_process.h"

namespace estrain::train {

inline constexpr int64_t kNumEsts = 3;
struct Way {
  const char* name;
  std::vector<EstRange> ranges;  // of the workers
  const char* clipping;
};

inline EstRange range(int64_t begin, int64_t end) { return {VirtualRank(begin), VirtualRank(end)}; }

inline const Way kWays[] = {
    {"in the hooks of the last EST", {range(0, 3)}, ""},
    {"clipped", {range(0, 3)}, "clip_grad_norm = 0.5\n"},
    {"by two workers, piece by piece", {range(0, 2), range(2, 3)}, ""},
    {"by two workers, clipped", {range(0, 2), range(2, 3)}, "clip_grad_norm = 0.5\n"},
};

// The parameters on which an EST's loss in a step depends.
using Reach = std::function<bool(int64_t rank, size_t parameter)>;

inline bool all(int64_t, size_t) { return true; }

// Linear, so that gradients depend only on the EST and the parameter.
inline torch::Tensor slope_of(const torch::Tensor& parameter) {
  return torch::linspace(-1, 2, parameter.numel()).view(parameter.sizes());
}
inline torch::Tensor loss_of(const TrainingJob& job, int64_t rank, const Reach& reaches) {
  torch::Tensor loss = torch::scalar_tensor(0.0);
  for (size_t i = 0; i < job.places().model.num_parameters(); ++i) {
    if (!reaches(rank, i)) continue;
    const torch::Tensor& parameter = job.network().parameters()[i];
    loss = loss + (parameter * (slope_of(parameter) * static_cast<double>(rank + 1))).sum();
  }
  return loss;
}

using Loss = std::function<torch::Tensor(const TrainingJob& job, int64_t rank, const Reach& reaches)>;

// The first parameter has the sizes [hidden, inputs].
struct LinearSizes {
  int64_t hidden = 5, inputs = 7;
};

class LinearTraining {
 public:
  // `more`: further TOML.
  LinearTraining(const std::string& optimizer, const Way& way, const std::string& more = "", LinearSizes sizes = {},
                 Loss loss = loss_of)
      : loss_(std::move(loss)), ranges_(way.ranges) {
    const spec::JobSpec spec = spec::parse_text(
        fmt::format("[job]\nests = {}\n[model]\nname = \"mlp\"\nhidden = [{}]\n[data]\nformat = \"synthetic\"\n"
                    "shape = [{}]\nsamples = 64\nbatch = 2\n[optimizer]\n{}[train]\nsteps = 9\n{}{}",
                    kNumEsts, sizes.hidden, sizes.inputs, optimizer, way.clipping, more),
        "test");
    workers_.push_back(std::make_unique<WorkerInProcess>(spec, fd_.get(), WorkerInProcess::plan_of(spec)));
    while (workers_.size() < ranges_.size()) workers_.push_back(std::make_unique<WorkerInProcess>(spec, fd_.get()));
  }

  // Backward passes, update and commit of all workers, side by side.
  void step(const Reach& reaches) {
    std::vector<std::thread> threads;
    for (size_t w = 0; w < workers_.size(); ++w) threads.emplace_back([this, w, &reaches] { train(w, reaches); });
    for (std::thread& thread : threads) thread.join();
    REQUIRE(workers_[0]->memory().commit().committed() == ++step_);
  }

  int64_t updates(size_t parameter) { return *job().places().optimizer.updates(state(), parameter); }

  // The parameter's values and slots.
  std::vector<float> values(size_t parameter) {
    const size_t n = job().places().model.elements(parameter);
    std::vector<float> values(job().places().model.parameter(state(), parameter),
                              job().places().model.parameter(state(), parameter) + n);
    for (size_t k = 0; k < job().places().optimizer.num_slots(parameter); ++k)
      values.insert(
          values.end(), job().places().optimizer.slot(state(), parameter, k),
          job().places().optimizer.slot(state(), parameter, k) + job().places().optimizer.slot_elements(parameter, k));
    return values;
  }

  std::vector<float> average(size_t parameter) {
    const float* first = job().places().averages.average(state(), parameter);
    return {first, first + job().places().model.elements(parameter)};
  }

  // Whether the parameter's digest on record equals the digest of the state.
  bool is_as_recorded(size_t parameter) {
    const checkpoint::StateLayout& layout = job().layout();
    const auto digests = checkpoint::recorded_digests(layout, checkpoint::digests_of_tensors(layout, state()));
    const std::optional<comm::RecordView> record = workers_[0]->memory().ring().find(step_);
    REQUIRE(record);
    return record->digests[parameter].load() == digests.at(job().manifest().digest_names[parameter]);
  }

  // Gives the ESTs streams, as the search for a NaN needs them, in both copies of the state.
  void seed_streams() {
    const at::Tensor stream = at::detail::createCPUGenerator(1).get_state();
    for (std::byte* const copy : {state(), next_state()}) {
      for (int64_t rank = 0; rank < kNumEsts; ++rank)
        std::memcpy(job().places().ests.generator(copy, VirtualRank(rank)), stream.const_data_ptr(), stream.nbytes());
    }
  }

  const comm::WorkerPulse& pulse(size_t w) { return workers_[w]->memory().pulse(WorkerRank(static_cast<int64_t>(w))); }
  // The copy that the next step writes.
  std::byte* next_state() { return workers_[0]->memory().state_of(step_.next()); }
  TrainingJob& job() { return workers_[0]->job(); }
  comm::JobMemory& memory() { return workers_[0]->memory(); }

 private:
  void train(size_t w, const Reach& reaches) {
    Workplace& place = workers_[w]->place();
    const StageOrder order{WorkerRank(static_cast<int64_t>(w)), ranges_};
    if (!carriers_[w]) carriers_[w] = std::make_unique<SharedCarrier>(place, order, false);
    SharedCarrier& carrier = *carriers_[w];
    place.model.read_parameters_of(step_);
    CHECK(carrier.begin_step(step_));
    for (int64_t rank = order.own().begin.value; rank < order.own().end.value; ++rank) {
      const auto arrival = static_cast<size_t>(rank - order.own().begin.value);
      carrier.backward(arrival, loss_(place.job, rank, reaches));
    }
    carrier.pass();
    CHECK(carrier.finish());
    CHECK(carrier.commit());
  }

  std::byte* state() { return workers_[0]->memory().state_of(step_); }

  const Loss loss_;
  const std::vector<EstRange> ranges_;
  UniqueFd fd_ = comm::JobMemory::create();
  std::vector<std::unique_ptr<WorkerInProcess>> workers_;
  std::vector<std::unique_ptr<SharedCarrier>> carriers_ = std::vector<std::unique_ptr<SharedCarrier>>(ranges_.size());
  Step step_;
};

}  // namespace estrain::train
