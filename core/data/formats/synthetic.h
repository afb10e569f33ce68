#pragma once
// Generates data for a model to learn: every sample is half the prototype of the class and half noise. Everything comes
// from Philox keyed by the job's seed, in integers: the same bits on every machine, sample by sample.
//
//   class(i)       = philox(i, stream synthetic_class)[0], scaled to the number of classes
//   prototype(c,p) = byte p mod 16 of philox({p / 16, c}, stream synthetic_prototype), the words little-endian
//   noise(i,p)     = byte p mod 16 of philox({i, p / 16}, stream synthetic_noise)
//   value(i,p)     = (prototype(class(i), p) + noise(i, p)) / 2, rounded down
//
// Images (a shape of rank 3) have these bytes as pixels and go through the transforms. Vectors (rank 1) hold (value -
// 128) / 128, exact in fp32. Test samples continue where the training samples end.

#include <cstdint>
#include <optional>
#include <vector>

#include "core/data/formats/format.h"
#include "core/data/sampling/philox.h"

namespace estrain::data {

constexpr int64_t synthetic_classes = 10;  // if the model does not set the number

// A SyntheticBytes makes the bytes above, for any number of elements.
class SyntheticBytes {
 public:
  SyntheticBytes(uint64_t seed, int64_t classes, int64_t elements);

  int64_t classes() const { return classes_; }
  int64_t elements() const { return elements_; }
  int64_t label(int64_t index) const;
  void write(int64_t index, uint8_t* out) const;

 private:
  PhiloxKey key_;
  int64_t classes_, elements_;
  std::vector<uint8_t> prototypes_;  // classes x elements, rounded up to whole Philox blocks
};

const Format& synthetic_format();

}  // namespace estrain::data
