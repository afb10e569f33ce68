#pragma once
// LengthBuckets orders an epoch's samples so that the samples of a step are about equally long: little is padded, and
// the ESTs of a step, which wait for each other, take about equally long.
//
// The list of an epoch (sampler.h) is cut into windows of K steps, N ESTs with b samples each. A window's samples are
// sorted by length, samples of one length in the order of the list, and are cut into K chunks of N b samples. The
// chunks come in a random order, a chunk for each step, and the N mini-batches of a chunk go to the ESTs in a random
// order. The last window of an epoch may have fewer steps; K below is the number of steps in the window. The samples
// behind the last whole step, for short mini-batches, stay as they are: otherwise, drop_last would always leave out
// long samples.
//
//   word(k)  = philox(counter = {window, k / 4, epoch, stream 5}, key = seed)[k mod 4]
//   chunk c  goes to step[c] of the window; step: a shuffle of 0 to K - 1, its step i by word(i)
//   slice q  of chunk c goes to EST est[q]; est: a shuffle of 0 to N - 1, its step i by word(K + c N + i)
//   step i   of a shuffle of n places by a word exchanges places i and i + below(word, n - i)
//
// A window depends on the samples in its own part of the list alone, and needs memory for one window.

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/ids.h"

namespace estrain::data {

struct LengthBuckets {
  std::vector<int64_t> lengths;  // of each sample of the training set, by its index
  int64_t steps = 1;             // K, of all windows but the last
  uint64_t seed = 0;             // of the job

  // Orders the list of an epoch of mini-batches of `batch` samples, in place. `list`: the samples of all ESTs by their
  // places, EST r at places r, r + N, …; its size is a multiple of N.
  void order(std::span<int64_t> list, int64_t batch, int64_t ests, Epoch epoch) const;
};

}  // namespace estrain::data
