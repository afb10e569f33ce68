#include "core/engine/train/block_times.h"

#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/median.h"
#include "core/engine/device/cpu.h"
#include "core/engine/model/block_watch.h"
#include "core/engine/model/torch_error.h"
#include "core/engine/operators/deterministic.h"
#include "core/engine/operators/portable.h"
#include "core/engine/train/initial_state.h"
#include "core/engine/train/probe.h"
#include "core/engine/train/stage.h"
#include "core/state/comm/stage_control.h"

namespace estrain::train {
namespace {

constexpr int64_t kMostEsts = 4;
constexpr int64_t kColdSteps = 2;  // the first undivided, the second by blocks
constexpr int64_t kLeastTimedRounds = 2,
                  kMostTimedRounds = 50;        // a round has two steps, and the ring of records has room
constexpr size_t kMostBlocks = 400;             // in a message
constexpr int64_t kWithoutEnd = 1'000'000'000;  // steps

// The job, with training only, and with learning rates of 0: weights stay finite, whatever the data are.
spec::JobSpec timed_job(spec::JobSpec spec) {
  spec.job.ests = std::min(spec.job.ests, kMostEsts);
  spec.model.init.clear();
  spec.optimizer.lr = 0;
  for (spec::OptimizerGroup& group : spec.optimizer.groups) group.lr = 0;
  spec.schedule = {};
  spec.train.epochs.reset();
  spec.train.steps = kWithoutEnd;
  spec.train.eval_every = -1;
  spec.train.nonfinite = spec::NonfinitePolicy::stop;
  spec.train.metrics_file.clear();
  spec.train.metrics_names.clear();
  spec.checkpoint = {};
  spec.early_stop = {};
  spec.elastic.changes.clear();
  spec.audit = {};
  spec.logging.trace.clear();
  return spec;
}

// Returns the leaves whose gradients come from the gradient of `end`.
std::vector<const c10::TensorImpl*> leaves_of(const torch::Tensor& end) {
  std::vector<const c10::TensorImpl*> leaves;
  std::set<torch::autograd::Node*> seen;
  std::vector<torch::autograd::Node*> open = {end.grad_fn().get()};
  while (!open.empty()) {
    torch::autograd::Node* node = open.back();
    open.pop_back();
    if (node == nullptr || !seen.insert(node).second) continue;
    if (const auto* leaf = dynamic_cast<torch::autograd::AccumulateGrad*>(node))
      leaves.push_back(leaf->variable.unsafeGetTensorImpl());
    for (const torch::autograd::Edge& edge : node->next_edges()) open.push_back(edge.function.get());
  }
  return leaves;
}

double median_or_zero(const std::vector<double>& values) { return values.empty() ? 0 : upper_median(values); }

comm::TimedBlock join_blocks(const comm::TimedBlock* first, const comm::TimedBlock* last) {
  comm::TimedBlock all = *last;
  for (const comm::TimedBlock* block = first; block != last; ++block) {
    all.forward += block->forward;
    all.backward += block->backward;
    all.update += block->update;
    all.parameter_bytes += block->parameter_bytes;
    all.parameters.insert(all.parameters.end(), block->parameters.begin(), block->parameters.end());
  }
  if (first != last) all.name = first->name + " to " + last->name;
  return all;
}

// Joins neighbours where a message could not hold all blocks.
std::vector<comm::TimedBlock> fitting(const std::vector<comm::TimedBlock>& blocks) {
  const size_t each = (blocks.size() + kMostBlocks - 1) / kMostBlocks;
  std::vector<comm::TimedBlock> fewer;
  for (size_t first = 0; first < blocks.size(); first += each)
    fewer.push_back(join_blocks(&blocks[first], &blocks[std::min(first + each, blocks.size()) - 1]));
  return fewer;
}

}  // namespace

BlockTimer::BlockTimer(device::ComputeDevice& device, const std::vector<torch::Tensor>& parameters,
                       const comm::WorkerPulse& pulse, est::Backward undivided, Options options)
    : device_(device),
      parameters_(parameters),
      pulse_(pulse),
      undivided_(std::move(undivided)),
      options_(std::move(options)) {}

bool BlockTimer::is_warm() const { return step() >= kColdSteps; }

// Returns the seconds since the last lap, with all work of the device.
double BlockTimer::lap() {
  device_.finish();
  const int64_t now = monotonic_ns();
  return seconds(now - std::exchange(lap_ns_, now));
}

void BlockTimer::begin_step() {
  const int64_t now = monotonic_ns();
  if (step() == kColdSteps) warm_ns_ = now;
  if (step() > kColdSteps && runs_by_blocks()) undivided_steps_.push_back(seconds(now - step_ns_));
  if (step() > kColdSteps && !runs_by_blocks()) {
    const int64_t waited = pulse_.reading_ns.load(std::memory_order_relaxed) - reading_ns_;
    rests_.push_back(std::max(0.0, seconds(now - end_ns_ - waited)));
  }
  step_ns_ = now;
}

torch::Tensor BlockTimer::begin_block(std::string_view name, const torch::Tensor& activation) {
  const bool is_first = !activation.defined();
  if (is_first) {
    at_ = 0;
    crossings_.clear();
    if (mini_batches_ % options_.ests == 0) begin_step();
  }
  if (!runs_by_blocks()) return activation;
  if (!is_first) {
    end_forward();
    // Of a whole mini-batch: the last one of an epoch may be short.
    blocks_[at_].output_bytes = std::max<uint64_t>(blocks_[at_].output_bytes, activation.nbytes());
    crossings_.push_back({activation, activation.detach().requires_grad_(activation.requires_grad())});
    ++at_;
  }
  if (at_ == blocks_.size()) blocks_.emplace_back().name = name;
  lap();
  return is_first ? activation : crossings_.back().begin;
}

void BlockTimer::end_forward() {
  const double taken = lap();
  if (is_warm()) blocks_[at_].forward.push_back(taken);
}

void BlockTimer::end_backward() {
  const double taken = lap();
  if (is_warm()) (is_last_est() ? blocks_[at_].last_backward : blocks_[at_].backward).push_back(taken);
}

// Notes the parameters whose gradients a block computes. Blocks come last first, and a tied parameter's gradient is
// whole in the parameter's first block.
void BlockTimer::note_parameters(const torch::Tensor& end) {
  if (is_warm()) return;
  homes_.resize(parameters_.size(), blocks_.size());
  const std::vector<const c10::TensorImpl*> leaves = leaves_of(end);
  for (size_t i = 0; i < parameters_.size(); ++i)
    if (std::ranges::find(leaves, parameters_[i].unsafeGetTensorImpl()) != leaves.end()) homes_[i] = at_;
}

void BlockTimer::backward(const torch::Tensor& loss) {
  if (!runs_by_blocks() || blocks_.empty()) {
    undivided_(loss);
    return end_mini_batch();
  }
  end_forward();
  note_parameters(loss);
  lap();
  undivided_(loss);  // to the leaf with which the last block begins
  end_backward();
  while (at_ > 0) {
    --at_;
    const Crossing crossing = std::move(crossings_.back());
    crossings_.pop_back();
    const torch::Tensor& gradient = crossing.begin.grad();
    if (gradient.defined()) note_parameters(crossing.end);
    lap();
    if (gradient.defined()) crossing.end.backward(gradient);
    end_backward();
  }
  end_mini_batch();
}

void BlockTimer::end_mini_batch() {
  const bool ends_step = is_last_est(), ends_round = ends_step && runs_by_blocks();
  const int64_t rounds = (step() + 1 - kColdSteps) / 2;
  ++mini_batches_;
  if (!ends_step) return;
  end_ns_ = monotonic_ns();
  reading_ns_ = pulse_.reading_ns.load(std::memory_order_relaxed);
  const bool is_long = seconds(end_ns_ - warm_ns_) >= options_.seconds;
  const bool enough = rounds >= kMostTimedRounds || (rounds >= kLeastTimedRounds && is_long);
  if (!ends_round || !enough || is_done_) return;
  is_done_ = true;
  options_.when_done();
}

// The difference between the last mini-batch of a step and the others is summed over all blocks before the share of a
// block: the noise of single blocks cancels out.
double BlockTimer::update_seconds() const {
  if (!options_.updates_in_hooks) return median_or_zero(rests_);
  double sum = 0;
  for (const Block& block : blocks_)
    if (!block.backward.empty()) sum += median_or_zero(block.last_backward) - upper_median(block.backward);
  return std::max(0.0, sum);
}

comm::BlockTimes BlockTimer::times() const {
  comm::BlockTimes medians;
  medians.ests = options_.ests;
  medians.rounds = static_cast<int64_t>(undivided_steps_.size());
  medians.step_seconds = median_or_zero(undivided_steps_);
  for (const Block& block : blocks_) {
    comm::TimedBlock timed{.name = block.name, .output_bytes = block.output_bytes};
    timed.forward = median_or_zero(block.forward);
    timed.backward = median_or_zero(block.backward.empty() ? block.last_backward : block.backward);
    medians.blocks.push_back(std::move(timed));
  }
  double all_bytes = 0;
  for (size_t i = 0; i < homes_.size(); ++i) {
    if (homes_[i] == blocks_.size()) continue;
    medians.blocks[homes_[i]].parameter_bytes += parameters_[i].nbytes();
    medians.blocks[homes_[i]].parameters.push_back(static_cast<int64_t>(i));
    all_bytes += static_cast<double>(parameters_[i].nbytes());
  }
  const double update = update_seconds();
  for (comm::TimedBlock& block : medians.blocks)
    if (all_bytes > 0) block.update = update * static_cast<double>(block.parameter_bytes) / all_bytes;
  medians.blocks = fitting(medians.blocks);
  return medians;
}

comm::BlockTimes time_blocks(ProbeSetup& setup) {
  const spec::JobSpec spec = timed_job(setup.spec);
  device::DeviceOptions options = device_options(spec);
  options.graphs = false;  // a replayed pass does not tell of its blocks
  const auto device = device::open_device(setup.device, setup.libraries, options);
  const bool is_gpu = !device->torch_device().is_cpu();
  device::configure_cpu(spec.job.threads);
  std::optional<operators::DeterministicOperators> deterministic;
  if (is_gpu) deterministic.emplace(*device);
  std::optional<operators::PortableOperators> portable;
  if (spec.job.kernels == spec::Kernels::portable) portable.emplace(*device);
  const data::DataPair data = setup.data.get();
  TrainingJob job(spec, data, true, is_gpu, PythonSide{setup.interpreter, device.get()});
  const UniqueFd descriptor = comm::JobMemory::create();
  comm::JobMemory memory(descriptor.get());
  memory.lay_out(job.memory_plan());
  write_first_state(job, memory.state_of(Step(0)));
  memory.set_ready();
  comm::StageControl(memory).open();
  BoundModel model(job.network(), job.places(), memory, *device);
  const StageOrder alone{WorkerRank(0), {job.places().ests.all()}};
  BlockTimer timer(*device, job.network().parameters(), memory.pulse(alone.rank()), job.network().backward(),
                   {.ests = spec.job.ests,
                    .seconds = setup.seconds,
                    .updates_in_hooks = !is_gpu && spec.train.clip_grad_norm == 0,
                    .when_done = [&memory] { memory.gate().ask_pause(); }});
  est::GradientHooks hooks(job.network().parameters(), *device,
                           [&timer](const torch::Tensor& loss) { timer.backward(loss); });
  Workplace place{*device, job, memory, model, hooks, -1};
  job.network().model().train();
  const model::BlockWatch watch(
      [&timer](std::string_view name, const torch::Tensor& activation) { return timer.begin_block(name, activation); });
  if (Stage(place, alone).run() != Stage::Left::paused)
    throw Error(Fault::bug, "the steps that time blocks ended by themselves");
  return timer.times();
}

}  // namespace estrain::train

void estrain_time_blocks(estrain::train::ProbeSetup* setup, estrain::comm::BlockTimes* times) {
  estrain::model::translating_torch_errors([&] { *times = estrain::train::time_blocks(*setup); });
}
