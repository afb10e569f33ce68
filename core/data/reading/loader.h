#pragma once
// A Loader reads the mini-batches of all ESTs of a worker, by one set of reader threads, in the worker's order of use:
// at each step rank begin, begin + 1, …, end - 1, then the next step, across epochs. (EasyScale section 3.2: only one
// EST of a worker computes at a time, and the ESTs share the readers. 8 ESTs need no more readers than one EST, and
// wait no longer for the first mini-batch.)
//
// The content of a mini-batch depends only on (data set, sampler, seed, cursor, rank). A loader has no state for a
// checkpoint: after a resize, new loaders start behind the last completed step.

#include <cstdint>
#include <optional>

#include "core/base/ids.h"
#include "core/data/formats/dataset.h"
#include "core/data/reading/read_ahead.h"
#include "core/data/sampling/batch.h"
#include "core/data/sampling/mixing.h"
#include "core/data/sampling/sampler.h"

namespace estrain::data {

struct LoaderOptions {
  int64_t readers = 1;           // threads
  int64_t prefetch = 4;          // mini-batches to read ahead
  uint64_t seed = 0;             // of the job: for augmentation
  std::optional<int64_t> steps;  // steps from `start` to the job's end: nothing is read beyond
  int64_t most_readers = 1;      // if larger than `readers`: tune the number of readers up to this (reader_tuning.h)
  int64_t most_prefetch = 1;     // if larger than `prefetch`: tune the read-ahead up to this
  HostMemory memory = {};        // memory for mini-batches; empty: ordinary memory
  std::optional<Mixing> mixing = {};  // of the images of each mini-batch; nothing: not mixed
  bool pads_to_longest = false;       // ragged arrays: every mini-batch to the longest sample of the data set
};

class Loader {
 public:
  // `dataset` and `sampler` must outlive the loader.
  Loader(const Dataset& dataset, const EpochSampler& sampler, EstRange ests, Step start, const LoaderOptions& options);

  // Waits for the next mini-batch. Throws errors from reading the mini-batch; Fault::bug beyond the last step.
  LoadedBatch next();
  bool is_ready() { return reader_.is_ready(); }           // whether next() would not wait
  int64_t readers() const { return reader_.readers(); }    // current number of threads
  int64_t prefetch() const { return reader_.prefetch(); }  // current number of mini-batches ahead

 private:
  ReadAhead reader_;
};

}  // namespace estrain::data
