// A parameter that no EST reaches in a step does not change: torch.optim skips parameters without gradients. Tested
// through whole updates, for each update path in updater.h.

#include <doctest/doctest.h>
#include <torch/types.h>

#include <cstring>
#include <memory>
#include <thread>

#include "core/spec/parsing/parse.h"
#include "core/train/shared/shared_carrier.h"
#include "tests/core/train/worker_in_process.h"

namespace estrain::train {
namespace {

constexpr int64_t kNumEsts = 3;
constexpr size_t kParameters = 4;  // in the mlp
constexpr size_t kMissed = 1;      // the parameter under test

const char* const kOptimizers[] = {
    "name = \"sgd\"\nlr = 0.1\nweight_decay = 0.01\n",
    "name = \"sgd\"\nlr = 0.1\nmomentum = 0.9\ndampening = 0.5\nweight_decay = 0.01\n",
    "name = \"sgd\"\nlr = 0.1\nmomentum = 0.9\nnesterov = true\n",
    "name = \"adam\"\nlr = 0.01\nweight_decay = 0.01\n",
    "name = \"adamw\"\nlr = 0.01\nweight_decay = 0.01\n",
};

struct Way {
  const char* name;
  std::vector<EstRange> ranges;  // of the workers
  const char* clipping;
};

EstRange range(int64_t begin, int64_t end) { return {VirtualRank(begin), VirtualRank(end)}; }

const Way kWays[] = {
    {"in the hooks of the last EST", {range(0, 3)}, ""},
    {"clipped", {range(0, 3)}, "clip_grad_norm = 0.5\n"},
    {"by two workers, piece by piece", {range(0, 2), range(2, 3)}, ""},
    {"by two workers, clipped", {range(0, 2), range(2, 3)}, "clip_grad_norm = 0.5\n"},
};

// The parameters that an EST's loss in a step depends on.
using Reach = std::function<bool(int64_t rank, size_t parameter)>;

bool all(int64_t, size_t) { return true; }
bool all_but_missed(int64_t, size_t parameter) { return parameter != kMissed; }
bool last_est_only(int64_t rank, size_t parameter) { return parameter != kMissed || rank == kNumEsts - 1; }

// Linear, so that gradients depend only on the EST and the parameter.
torch::Tensor loss_of(const Job& job, int64_t rank, const Reach& reaches) {
  torch::Tensor loss = torch::scalar_tensor(0.0);
  for (size_t i = 0; i < job.places().model.num_parameters(); ++i) {
    if (!reaches(rank, i)) continue;
    const torch::Tensor& parameter = job.network().parameters()[i];
    const torch::Tensor slope = torch::linspace(-1, 2, parameter.numel()).view(parameter.sizes());
    loss = loss + (parameter * (slope * static_cast<double>(rank + 1))).sum();
  }
  return loss;
}

class Training {
 public:
  Training(const std::string& optimizer, const Way& way) : ranges_(way.ranges) {
    const spec::JobSpec spec = spec::parse_text(
        fmt::format("[job]\nests = {}\n[model]\nname = \"mlp\"\nhidden = [5]\n[data]\nformat = \"synthetic\"\n"
                    "shape = [7]\nsamples = 64\nbatch = 2\n[optimizer]\n{}[train]\nsteps = 9\n{}",
                    kNumEsts, optimizer, way.clipping),
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
      values.insert(values.end(), job().places().optimizer.slot(state(), parameter, k),
                    job().places().optimizer.slot(state(), parameter, k) + n);
    return values;
  }

 private:
  void train(size_t w, const Reach& reaches) {
    Workplace& place = workers_[w]->place();
    const StageOrder order{WorkerRank(static_cast<int64_t>(w)), ranges_};
    SharedCarrier carrier(place, order, false);
    place.model.read_parameters_of(step_);
    CHECK(carrier.begin_step(step_));
    for (int64_t rank = order.own().begin.value; rank < order.own().end.value; ++rank) {
      const auto arrival = static_cast<size_t>(rank - order.own().begin.value);
      carrier.backward(arrival, loss_of(place.job, rank, reaches));
    }
    carrier.pass();
    CHECK(carrier.finish());
    CHECK(carrier.commit());
  }

  Job& job() { return workers_[0]->job(); }
  std::byte* state() { return workers_[0]->memory().state_of(step_); }

  const std::vector<EstRange> ranges_;
  UniqueFd fd_ = comm::JobMemory::create();
  std::vector<std::unique_ptr<WorkerInProcess>> workers_;
  Step step_;
};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

template <typename Check>
void for_every_update(Check&& check) {
  for (const char* optimizer : kOptimizers) {
    for (const Way& way : kWays) {
      CAPTURE(std::string(optimizer));
      CAPTURE(std::string(way.name));
      check(optimizer, way);
    }
  }
}

TEST_CASE("a parameter that no EST reached keeps values, slots and its count of updates; the others go on") {
  for_every_update([](const char* optimizer, const Way& way) {
    Training training(optimizer, way);
    const std::vector<float> first = training.values(kMissed);
    for (int64_t step = 1; step <= 2; ++step) {
      training.step(all_but_missed);
      CHECK(training.updates(kMissed) == 0);
      CHECK(same_bits(training.values(kMissed), first));
      for (size_t i = 0; i < kParameters; ++i)
        if (i != kMissed) CHECK(training.updates(i) == step);
    }
    training.step(last_est_only);
    CHECK(training.updates(kMissed) == 1);
    CHECK_FALSE(same_bits(training.values(kMissed), first));
    const std::vector<float> once = training.values(kMissed);
    training.step(all_but_missed);
    CHECK(training.updates(kMissed) == 1);
    CHECK(same_bits(training.values(kMissed), once));
  });
}

TEST_CASE("the first update of a parameter that was reached late has the bits of a first step's") {
  for_every_update([](const char* optimizer, const Way& way) {
    Training late(optimizer, way), at_once(optimizer, way);
    late.step(all_but_missed);
    late.step(all);
    at_once.step(all);
    CHECK(same_bits(late.values(kMissed), at_once.values(kMissed)));
    CHECK(late.updates(kMissed) == at_once.updates(kMissed));
    CHECK_FALSE(same_bits(late.values(0), at_once.values(0)));
  });
}

}  // namespace
}  // namespace estrain::train
