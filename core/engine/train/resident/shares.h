#pragma once
// Decides which device updates which parameters in a job on several devices (exchanged_update.h).
//
// The parameters, in the order of the state, are cut into buckets. The backward pass reaches the last parameters first,
// so bucket 0 is at the end. Each bucket is cut into one share for each worker. Cuts are at multiples of 64 floats,
// also within parameters. The cuts do not affect the bits, since sums and updates go element by element.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace estrain::train {

struct FloatRange {
  size_t begin = 0, end = 0;

  size_t size() const { return end - begin; }
};

class Shares {
 public:
  // Cuts an array of `floats` elements.
  Shares(size_t floats, uint32_t workers);

  size_t buckets() const { return buckets_.size(); }
  // Bucket 0 is the last in memory.
  FloatRange bucket(size_t b) const { return buckets_[b]; }
  // Returns a worker's share of a bucket; a share may be empty.
  FloatRange share(size_t b, uint32_t worker) const;

 private:
  uint32_t workers_;
  std::vector<FloatRange> buckets_;
};

}  // namespace estrain::train
