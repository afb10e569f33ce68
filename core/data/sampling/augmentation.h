#pragma once
// A SampleDraw is the random choices for a sample in an epoch. The choices are keyed by (seed, epoch, sample index)
// alone (drawn with replacement: also by the draw's place, so that repeated samples differ), and depend neither on the
// EST that takes the sample, nor on the reader thread, the prefetch depth or a resize.
//
//   words = philox(counter = {index low, index high + repeat, epoch, stream 0}, key = seed)
//   repeat: 0, or for samples that are drawn with replacement, 1 + the place of the draw in the epoch
//   crop row from words[0], crop column from words[1], flip from the highest bit of words[2]; words[3] is spare
//   a cut that is tried several times (core/data/pixels/photo_pixels.h): try t draws from stream 16 + t
//   operations (core/data/pixels/rand_augment.h), colours (core/data/pixels/jitter.h) and erased rectangles
//   (core/data/pixels/erasing.h) from streams of their own

#include <cstdint>

#include "core/base/ids.h"
#include "core/data/sampling/philox.h"

namespace estrain::data {

class SampleDraw {
 public:
  // For training.
  SampleDraw(uint64_t seed, Epoch epoch, int64_t index, int64_t repeat = 0)
      : random_(true),
        counter_{static_cast<uint32_t>(index),
                 static_cast<uint32_t>((static_cast<uint64_t>(index) >> 32) + static_cast<uint64_t>(repeat)),
                 static_cast<uint32_t>(epoch.value), static_cast<uint32_t>(PhiloxStream::augmentation)},
        key_(philox_key(seed)) {}

  // For evaluation: nothing is random; crops are taken from the centre and nothing is mirrored.
  static SampleDraw fixed() { return SampleDraw(); }

  bool is_random() const { return random_; }
  Epoch epoch() const { return random_ ? Epoch(counter_[2]) : Epoch(-1); }  // -1: evaluation
  PhiloxWords words() const { return philox(counter_, key_); }
  PhiloxWords words_of_cut(uint32_t attempt) const { return words_of(PhiloxStream::cut, attempt); }
  // Of the stream with the number `stream` + `number`.
  PhiloxWords words_of(PhiloxStream stream, uint32_t number = 0) const {
    PhiloxCounter counter = counter_;
    counter[3] = static_cast<uint32_t>(stream) + number;
    return philox(counter, key_);
  }

 private:
  SampleDraw() = default;

  bool random_ = false;
  PhiloxCounter counter_{};
  PhiloxKey key_{};
};

}  // namespace estrain::data
