#include "core/engine/train/resident/own_shares.h"

#include <algorithm>

namespace estrain::train {

OwnShares::OwnShares(const ModelPlaces& places, uint32_t worker, uint32_t workers)
    : worker_(worker),
      workers_(workers),
      shares_(places.parameters_bytes() / sizeof(float), workers),
      pieces_(shares_.buckets()),
      buckets_of_(places.num_parameters()),
      parameters_in_(shares_.buckets()) {
  for (size_t b = 0; b < shares_.buckets(); ++b) {
    const FloatRange bucket = shares_.bucket(b), mine = own(b);
    packed_at_.push_back(packed_at_.back() + mine.size());
    for (size_t i = 0; i < places.num_parameters(); ++i) {
      const size_t first = places.gradient_offset(i), last = first + places.elements(i);
      if (std::max(first, bucket.begin) < std::min(last, bucket.end)) {
        buckets_of_[i].push_back(b);
        ++parameters_in_[b];
      }
      const size_t begin = std::max(first, mine.begin), end = std::min(last, mine.end);
      if (begin < end) pieces_[b].push_back({i, begin - first, end - begin});
    }
  }
}

}  // namespace estrain::train
