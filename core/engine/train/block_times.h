#pragma once
// Times the blocks of a job's network (core/engine/model/block_watch.h) in steps of a worker that trains alone.
//
// Every other step runs block by block. The activation with which a block begins becomes a leaf of a graph of its own,
// so the backward pass runs block by block, too, last block first, and each block begins with the gradient of the leaf
// behind the block. Each gradient has the bits of an undivided pass. As in all training, gradients are folded in the
// hooks, and a worker alone updates a parameter in the hook of the step's last EST. The steps between run undivided:
// their time checks the sum of the blocks' times.

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/engine/device/device.h"
#include "core/engine/est/gradient_hooks.h"
#include "core/state/comm/memory/pulse.h"
#include "core/state/comm/messages/probe_messages.h"

namespace estrain::train {

class BlockTimer {
 public:
  struct Options {
    int64_t ests = 1;                         // mini-batches of a step
    double seconds = 0;                       // of training, beyond the first steps
    bool updates_in_hooks = true;             // else the update follows the step's last mini-batch
    std::function<void()> when_done = [] {};  // called once, in the last step
  };

  // `undivided`: the backward pass of a whole mini-batch. `pulse`: of the worker. `parameters`: of the network. All
  // references must outlive the timer.
  BlockTimer(device::ComputeDevice& device, const std::vector<torch::Tensor>& parameters,
             const comm::WorkerPulse& pulse, est::Backward undivided, Options options);

  // For a BlockWatch.
  torch::Tensor begin_block(std::string_view name, const torch::Tensor& activation);
  // For GradientHooks: runs the backward pass of a mini-batch's loss.
  void backward(const torch::Tensor& loss);

  // Call this function after when_done(): medians over the timed steps.
  comm::BlockTimes times() const;

 private:
  struct Block {
    std::string name;
    std::vector<double> forward, backward, last_backward;  // seconds; last: of a step's last EST
    uint64_t output_bytes = 0, parameter_bytes = 0;
  };
  // Between two blocks: the activation with the graph of the block before, and the leaf with which the next begins.
  struct Crossing {
    torch::Tensor end, begin;
  };

  int64_t step() const { return mini_batches_ / options_.ests; }
  bool is_last_est() const { return (mini_batches_ + 1) % options_.ests == 0; }
  bool runs_by_blocks() const { return step() % 2 == 1; }
  bool is_warm() const;
  double lap();
  void begin_step();
  void end_mini_batch();
  void end_forward();
  void end_backward();
  void note_parameters(const torch::Tensor& end);
  double update_seconds() const;  // of all parameters

  device::ComputeDevice& device_;
  const std::vector<torch::Tensor>& parameters_;
  const comm::WorkerPulse& pulse_;
  const est::Backward undivided_;
  const Options options_;
  std::vector<Block> blocks_;
  std::vector<size_t> homes_;                    // of each parameter: the first block known to use the parameter
  std::vector<double> undivided_steps_, rests_;  // seconds; rests: of a step, behind the last mini-batch
  std::vector<Crossing> crossings_;              // of the mini-batch under way
  size_t at_ = 0;                                // the block under way
  int64_t mini_batches_ = 0;
  int64_t lap_ns_ = 0, step_ns_ = 0, end_ns_ = 0, warm_ns_ = 0;
  int64_t reading_ns_ = 0;  // that the worker had waited for data when the last mini-batch ended
  bool is_done_ = false;
};

}  // namespace estrain::train
