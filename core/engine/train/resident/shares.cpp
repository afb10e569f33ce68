#include "core/engine/train/resident/shares.h"

#include <algorithm>

namespace estrain::train {
namespace {

constexpr size_t kUnit = 64;                  // floats: 256 bytes, as parameters are aligned
constexpr size_t kLargestBucket = 8'000'000;  // floats; long enough for a link's full speed, short enough to overlap
constexpr size_t kFewestBuckets = 8;  // GPUs need memory for the sums of two buckets

size_t round_up(size_t floats, size_t unit) { return (floats + unit - 1) / unit * unit; }

}  // namespace

Shares::Shares(size_t floats, uint32_t workers) : workers_(workers) {
  const size_t wanted = std::min(kLargestBucket, (floats + kFewestBuckets - 1) / kFewestBuckets);
  const size_t size = std::max(kUnit, round_up(wanted, kUnit));
  for (size_t end = floats; end > 0;) {
    const size_t begin = end > size ? round_up(end - size, kUnit) : 0;
    buckets_.push_back({begin, end});
    end = begin;
  }
}

BucketRange Shares::share(size_t b, uint32_t worker) const {
  const BucketRange bucket = buckets_[b];
  const size_t size = round_up((bucket.size() + workers_ - 1) / workers_, kUnit);
  return {std::min(bucket.end, bucket.begin + worker * size), std::min(bucket.end, bucket.begin + (worker + 1) * size)};
}

OwnShares::OwnShares(const ModelPlaces& places, uint32_t worker, uint32_t workers)
    : worker_(worker),
      workers_(workers),
      shares_(places.parameters_bytes() / sizeof(float), workers),
      pieces_(shares_.buckets()),
      parts_(shares_.buckets()),
      buckets_of_(places.num_parameters()) {
  for (size_t i = 0; i < places.num_parameters(); ++i) offsets_.push_back(places.gradient_offset(i));
  for (size_t b = 0; b < shares_.buckets(); ++b) {
    const BucketRange bucket = shares_.bucket(b), mine = own(b);
    packed_at_.push_back(packed_at_.back() + mine.size());
    for (size_t i = 0; i < places.num_parameters(); ++i) {
      const size_t first = places.gradient_offset(i), last = first + places.elements(i);
      const auto add_common = [&](const BucketRange& range, std::vector<ParameterPiece>& to) {
        const size_t begin = std::max(first, range.begin), end = std::min(last, range.end);
        if (begin < end) to.push_back({i, begin - first, end - begin});
        return begin < end;
      };
      add_common(mine, pieces_[b]);
      if (add_common(bucket, parts_[b])) buckets_of_[i].push_back(b);
    }
  }
}

size_t OwnShares::largest_bucket() const {
  size_t largest = 0;
  for (size_t b = 0; b < buckets(); ++b) largest = std::max(largest, bucket(b).size());
  return largest;
}

}  // namespace estrain::train
