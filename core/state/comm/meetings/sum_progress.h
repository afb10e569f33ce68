#pragma once
// The progress of a step's gradients, where a job has several hosts: gradients that a host's workers have folded go to
// the other hosts while the workers fold the rest, and workers apply the sums over all hosts as those come back.
//
//   folded   of each worker: parameters whose gradients of its last EST are in its partial sums; counted from the last
//            parameter back, as a backward pass completes them
//   summed   the place from which on gradient slot 0 holds sums, in units of floats_of_unit from the start of the slot;
//            they reach to its end
//
// 1. During a step, only the worker writes its word. It writes the partial sums first, then the word (release); the
//    courier reads the word first (acquire). `summed` works the same way: the courier writes it, all workers read it.
// 2. The courier sets all words back between two steps, while all workers wait for its answer. Opening a stage sets
//    them back, too. So a word never speaks of a step that is over.
// 3. A worker that dies leaves words that nobody reads before a stage opens.

#include <cstddef>
#include <cstdint>

#include "core/base/ids.h"
#include "core/state/comm/memory/memory_header.h"

namespace estrain::comm {

class SumProgress {
 public:
  static constexpr size_t floats_of_unit = 64;  // a parameter begins at a multiple of it

  SumProgress(MemoryHeader& words, FoldedWord* folded) : words_(words), folded_(folded) {}

  // The workers'. `worker`: among those of this host.
  void note_folded(WorkerRank worker, uint32_t parameters);
  bool is_summed(size_t begin) const;
  // Sleeps until the sums from float `begin` on are there. False on abort.
  bool wait_summed(size_t begin);

  // The courier's. How many parameters all of the host's workers have folded.
  uint32_t folded_by_all(size_t workers) const;
  void note_summed(size_t begin);  // a multiple of floats_of_unit
  void begin_step(size_t workers);

 private:
  friend class StageControl;
  void wake_all();

  MemoryHeader& words_;
  FoldedWord* folded_;  // [workers]
};

}  // namespace estrain::comm
