#pragma once
// The messages between a process that asks for the needs of a job and a probe (core/engine/train/probe.h), which tries
// one mini-batch of the job, or times the blocks of the job's network.

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/json/fields.h"
#include "core/base/process/memory_use.h"
#include "core/state/comm/messages/channel.h"
#include "core/state/comm/messages/failed.h"

namespace estrain::comm {

struct TryMiniBatch {
  static constexpr std::string_view name = "try";
  std::string spec;         // TOML
  std::string device;       // "cpu", "cuda:0"
  bool measures = false;    // also times mini-batches of both kinds of kernels, for about two seconds
  bool foretells = false;   // also foretells the memory that GPUs need
  bool factors = false;     // also measures factors of gradients; not for a module in Python, and on the CPU
  bool one_sample = false;  // also tries a mini-batch of one sample

  ESTRAIN_FIELDS(spec, device, measures, foretells, factors, one_sample)
};

// An operator used by the job.
struct ProbedOperator {
  static constexpr std::string_view not_covered = "not covered";
  static constexpr std::string_view raises = "raises";
  static constexpr std::string_view unpinned = "unpinned";

  std::string name;                 // "aten::convolution"
  std::string coverage;             // "replaced" | "exact" | "not covered"
  std::string which;                // the part that no portable kernel covers: "on Double"; empty: all
  int64_t calls = 0;                // in the mini-batch
  std::vector<std::string> layers;  // the calling modules
  // On GPUs below D2: "repeatable" | "composed" | "unpinned" | "raises" (engine/operators/deterministic.h).
  std::string on_gpus;

  ESTRAIN_FIELDS(name, coverage, which, calls, layers, on_gpus)
};

// A mini-batch's forward and backward pass, with each kind of kernels.
struct ProbedSeconds {
  double torch = 0;
  std::optional<double> portable;  // if the device has portable kernels, and these have the job's precision

  ESTRAIN_FIELDS(torch, portable)
};

struct ProbedSize {
  uint64_t state_bytes = 0;     // of a copy of the state
  uint64_t gradient_bytes = 0;  // of a slot of gradients
  // Of that, tables of embeddings whose gradients are summed by rows, and what the rows of a mini-batch take instead.
  uint64_t table_bytes = 0, row_bytes = 0;
  uint64_t parameter_bytes = 0;
  uint64_t batch_bytes = 0;  // of a mini-batch: inputs and targets
  int64_t tensors = 0;       // of the state
  int64_t parameters = 0;
  int64_t digests = 0;            // per step
  uint64_t evaluation_bytes = 0;  // of an evaluation's results
  int64_t steps = 0;              // of the whole job

  ESTRAIN_FIELDS(state_bytes, gradient_bytes, table_bytes, row_bytes, parameter_bytes, batch_bytes, tensors, parameters,
                 digests, evaluation_bytes, steps)
};

// The factors of a gradient (gradient_factors.h), for a full mini-batch of an EST.
struct ProbedFactors {
  int64_t parameter = 0;  // number, in the order of the state
  uint64_t gradient_bytes = 0;
  uint64_t bytes = 0;  // of the factors
  double seconds = 0;  // of their product

  ESTRAIN_FIELDS(parameter, gradient_bytes, bytes, seconds)
};

// A later problem of the job, found early.
struct ProbedError {
  std::string message, advice;

  ESTRAIN_FIELDS(message, advice)
};

struct ProbeReport {
  static constexpr std::string_view name = "report";
  std::vector<ProbedOperator> operators;
  std::optional<ProbedSeconds> seconds;  // if asked for
  MemoryUse memory;                      // of the probe
  ProbedSize size;
  std::optional<ProbedError> short_batch_error;  // a step has mini-batches of one sample, which the model refuses
  std::string one_sample_error;                  // why the model refuses a mini-batch of one sample; if asked for
  int64_t samples_per_est = 0;                   // of an epoch
  std::optional<ProbedError> init_error;         // model.init cannot be taken
  std::string init_words;                        // what was taken from model.init
  std::vector<std::string> notes;                // unexpected facts about the computation, for the user
  std::vector<std::string> settings;             // changed by a module's Python code, and not applied: notes
  bool has_evaluation = true;                    // the data have samples for evaluation
  std::vector<uint64_t> gpu_bytes;               // foretold memory of each of n GPUs, at n - 1; empty: not asked for
  uint64_t gpu_memory = 0;                       // of the device, in bytes; 0: a CPU
  std::vector<uint64_t> gpu_slot_bytes;          // of the optimizer, of each of n GPUs: a part of gpu_bytes, or, with
                                                 // job.state = "host", in host memory
  std::vector<ProbedFactors> factors;            // of each gradient that has factors; empty: not asked for

  ESTRAIN_FIELDS(operators, seconds, memory, size, short_batch_error, one_sample_error, samples_per_est, init_error,
                 init_words, notes, settings, has_evaluation, gpu_bytes, gpu_memory, gpu_slot_bytes, factors)
};

struct TimeBlocks {
  static constexpr std::string_view name = "time-blocks";
  std::string spec;    // TOML
  std::string device;  // "cpu", "cuda:0"
  double seconds = 3;  // of training after the first steps; at least a few steps

  ESTRAIN_FIELDS(spec, device, seconds)
};

// A block of the job's network (core/engine/model/block_watch.h).
struct TimedBlock {
  std::string name;
  double forward = 0, backward = 0;  // seconds of a mini-batch: medians
  double update = 0;                 // seconds of a step with one worker; 0: within `backward`, for a job with one EST
  uint64_t output_bytes = 0;         // of a mini-batch's activation for the next block; the last block: 0
  uint64_t parameter_bytes = 0;      // with gradients; a tied parameter counts in its first block
  std::vector<int64_t> parameters = {};  // the same: ProbedFactors::parameter

  ESTRAIN_FIELDS(name, forward, backward, update, output_bytes, parameter_bytes, parameters)
};

// Steps of a worker alone, by blocks and undivided in turn (core/engine/train/block_times.h).
struct BlockTimes {
  static constexpr std::string_view name = "block-times";
  std::vector<TimedBlock> blocks;
  int64_t ests = 1;         // of a timed step; at most those of the job
  int64_t rounds = 0;       // of two steps
  double step_seconds = 0;  // of an undivided step: median

  // Returns the seconds of a step by blocks.
  double sum_of_blocks() const {
    double sum = 0;
    for (const TimedBlock& block : blocks)
      sum += static_cast<double>(ests) * (block.forward + block.backward) + block.update;
    return sum;
  }

  ESTRAIN_FIELDS(blocks, ests, rounds, step_seconds)
};

using ProbeRequest = std::variant<TryMiniBatch, TimeBlocks>;
using ProbeAnswer = std::variant<ProbeReport, BlockTimes, Failed>;
using ProbeChannel = Channel<ProbeRequest, ProbeAnswer>;      // the end of the asking process
using ProbesOwnChannel = Channel<ProbeAnswer, ProbeRequest>;  // the probe's

// Answers with the report returned by `probe`, or with the error thrown by `probe`.
template <typename Probe>
void answer_with(ProbesOwnChannel& asker, Probe&& probe) {
  try {
    asker.send(std::forward<Probe>(probe)());
  } catch (const Error& error) {
    asker.send(Failed(error));
  } catch (const std::exception& error) {
    asker.send(Failed(Error(Fault::bug, error.what())));
  }
}

}  // namespace estrain::comm
