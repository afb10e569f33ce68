#pragma once
// An EvaluationReader reads the test set in order, without augmentation: mini-batch i holds samples [i * batch, (i + 1)
// * batch), the last mini-batch the rest. Workers divide the batches by stride. Results are combined by batch number:
// sums run in sample order, whichever worker computed a result.

#include <cstdint>
#include <optional>

#include "core/data/formats/dataset.h"
#include "core/data/reading/read_ahead.h"
#include "core/data/sampling/batch.h"

namespace estrain::data {

struct EvaluationOptions {
  int64_t batch = 256;
  int64_t first = 0, stride = 1;  // batches first, first + stride, …
  int64_t readers = 1;
  int64_t prefetch = 4;
  HostMemory memory = {};        // memory for mini-batches; empty: ordinary memory
  bool pads_to_longest = false;  // ragged arrays: every mini-batch to the longest sample of the data set
};

class EvaluationReader {
 public:
  // `test` must outlive the object.
  EvaluationReader(const Dataset& test, const EvaluationOptions& options);

  // The next batch of this share, by increasing batch number (LoadedBatch::number); nothing after the last batch.
  // Throws errors from reading the batch.
  std::optional<LoadedBatch> next() { return reader_.next(); }

  // The number of batches of the whole test set.
  static int64_t batches(const Dataset& test, int64_t batch) { return (test.size() + batch - 1) / batch; }

 private:
  ReadAhead reader_;
};

}  // namespace estrain::data
