#pragma once
// Mixes the images of a training mini-batch pairwise, and the labels with them: data.mixup (Zhang et al., "mixup:
// Beyond Empirical Risk Minimization", ICLR 2018) and data.cutmix (Yun et al., "CutMix: Regularization Strategy to
// Train Strong Classifiers with Localizable Features", ICCV 2019), with the bits of torchvision.transforms.v2 for equal
// draws.
//
// The mini-batch is an EST's. Its sample i is mixed with sample i - 1, and sample 0 with the last one:
//
//   mixup    image = before * (1 - share) + image * share, each operation rounded to fp32
//   cutmix   the pixels in a box come from the sample before; the share is then 1 - area of the box / area of the image
//   labels   probabilities of the classes, float32: 1 - share for the class of the sample before, plus share for the
//            sample's own
//
// With both keys, each mini-batch is mixed in one way or the other, with probability 1/2.
//
// The draw depends only on the seed, the EST and the EST's position in the data, so it has no trace of workers, readers
// and resizes. words(t) = philox(counter = {position low, position high, epoch, stream 65536 + 1024 * EST + t}, key =
// seed), the position counted in samples of the EST in the epoch. Of words(0): cutmix if the highest bit of [0] is set
// (with both keys); the column of the box's centre below(width) from [1], the row from [2]. The share is of a Beta
// distribution with both parameters alpha, by tries t = 1, 2, … with u = ([0] + 1/2) / 2^32 and v = ([1] + 1/2) / 2^32
// of words(t), until a try is accepted:
//
//   alpha <= 1   Jöhnk: x = u^(1 / alpha), y = v^(1 / alpha); accepted if x + y <= 1; share x / (x + y)
//   alpha > 1    Cheng's algorithm BB (1978) with both parameters alpha

#include <cstdint>
#include <optional>

#include "core/base/ids.h"
#include "core/data/sampling/sample_shape.h"
#include "core/job/batches/batch_schedule.h"

namespace estrain::data {

struct Mix {
  struct Box {
    int64_t top = 0, bottom = 0, left = 0, right = 0;  // rows [top, bottom), columns [left, right)

    bool operator==(const Box&) const = default;
  };
  double share = 1;          // of a sample itself
  std::optional<Box> box{};  // cutmix
  int64_t classes = 0;       // of the labels

  bool operator==(const Mix&) const = default;
};

// Immutable, hence thread-safe.
class Mixing {
 public:
  struct Options {
    double mixup = 0, cutmix = 0;  // alpha; 0: none. One of them is positive
    uint64_t seed = 0;
    int64_t height = 0, width = 0;  // of an image
    int64_t classes = 0;
  };
  explicit Mixing(const Options& options) : options_(options) {}

  // For the mini-batch of a rank that begins at the cursor.
  Mix of(const batches::Cursor& cursor, VirtualRank rank) const;

 private:
  Options options_;
};

// Mixes `samples` images of this shape in place.
void mix_images(const Mix& mix, const SampleShape& shape, int64_t samples, float* images);
// Writes samples * mix.classes probabilities. Throws Fault::mismatch for a label outside [0, mix.classes).
void mix_labels(const Mix& mix, int64_t samples, const int64_t* labels, float* out);

}  // namespace estrain::data
