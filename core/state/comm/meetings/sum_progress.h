#pragma once
// The progress of a step's gradients, in a job over several hosts: gradients folded by a host's workers go to the other
// hosts while the workers fold the rest, and workers apply the sums over all hosts as the sums come back.
//
//   folded   of each worker: parameters whose gradients of the worker's last EST are in the partial sums; counted from
//            the last parameter back, as a backward pass completes the gradients
//   summed   the place from which on gradient slot 0 holds sums, in units of floats_of_unit from the start of the slot;
//            the sums reach to the slot's end
//   factors  of each worker: factors written (gradient_factors.h), EST by EST, in each from the last chosen parameter
//   to the
//            first; and whether the factors of all other hosts have arrived
//
// 1. During a step, only the worker writes the worker's word: first the partial sums, then the word (release). The
//    courier reads the word first (acquire). `summed` works the same way: the courier writes, all workers read.
// 2. The courier sets all words back between two steps, while all workers wait for the courier's answer. Opening a
//    stage sets the words back, too. A word therefore never speaks of an earlier step.
// 3. After the loss of a worker no process reads the worker's words before a stage opens.

#include <cstddef>
#include <cstdint>

#include "core/base/ids.h"
#include "core/state/comm/memory/memory_header.h"

namespace estrain::comm {

class SumProgress {
 public:
  static constexpr size_t floats_of_unit = 64;  // a parameter begins at a multiple of this number

  SumProgress(MemoryHeader& words, FoldedWord* folded) : words_(words), folded_(folded) {}

  // For the workers. `worker`: among the workers of this host.
  void note_folded(WorkerRank worker, uint32_t parameters);
  bool is_summed(size_t begin) const;
  // Sleeps until the sums from float `begin` on are ready. False on abort.
  bool wait_summed(size_t begin);

  void note_factors(WorkerRank worker, uint32_t factors);
  // Sleeps until the factors of all other hosts have arrived. False on abort.
  bool wait_factors();

  // The courier's. How many parameters all of the host's workers have folded.
  uint32_t folded_by_all(size_t workers) const;
  void note_summed(size_t begin);  // a multiple of floats_of_unit
  uint32_t factors_of(size_t worker) const;
  void note_factors_arrived();
  void begin_step(size_t workers);

 private:
  friend class StageControl;
  void wake_all();

  MemoryHeader& words_;
  FoldedWord* folded_;  // [workers]
};

}  // namespace estrain::comm
