#pragma once
// The mini-batches of all ESTs that a worker hosts, from one set of reader threads, in the order in which the worker
// needs them: at each step rank begin, begin + 1, …, end - 1, then the next step, across epochs. (EasyScale
// section 3.2: only one EST of a worker computes at a time, so the ESTs share the readers; 8 ESTs need no more of them
// than one, and wait no longer for the first mini-batch.)
//
// What a mini-batch holds is a function of (data set, sampler, seed, cursor, rank) alone. A loader keeps no state that
// a checkpoint needs: after a resize, new loaders start at the cursor of the last completed step.

#include <cstdint>
#include <optional>

#include "core/base/ids.h"
#include "core/data/batch.h"
#include "core/data/dataset.h"
#include "core/data/read_ahead.h"
#include "core/data/sampler.h"

namespace estrain::data {

struct LoaderOptions {
  int64_t readers = 1;           // threads
  int64_t prefetch = 4;          // mini-batches ahead of need
  uint64_t seed = 0;             // of the job: for augmentation
  std::optional<int64_t> steps;  // steps until the job's end, from `start`: nothing is read beyond them
  int64_t most_readers = 1;      // where that is more than `readers`: as many as it takes not to wait (reader_tuning.h)
  int64_t most_prefetch = 1;     // where that is more than `prefetch`: as far ahead as it takes
  HostMemory memory = {};        // where mini-batches lie; empty: ordinary memory
};

class Loader {
 public:
  // `dataset` and `sampler` must outlive the loader.
  Loader(const Dataset& dataset, const Sampler& sampler, EstRange ests, Cursor start, const LoaderOptions& options);

  // Waits for the next mini-batch. Throws what went wrong while reading it; Fault::bug beyond the last step.
  Batch next();
  bool is_ready() { return reader_.is_ready(); }           // there is a mini-batch that next() need not wait for
  int64_t readers() const { return reader_.readers(); }    // threads, now
  int64_t prefetch() const { return reader_.prefetch(); }  // mini-batches ahead, now

 private:
  ReadAhead reader_;
};

}  // namespace estrain::data
