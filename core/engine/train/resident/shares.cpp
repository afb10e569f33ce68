#include "core/engine/train/resident/shares.h"

#include <algorithm>

namespace estrain::train {
namespace {

constexpr size_t kUnit = 64;                  // floats: 256 bytes, as parameters are aligned
constexpr size_t kLargestBucket = 8'000'000;  // floats; long enough for a link's full speed, short enough to overlap
constexpr size_t kFewestBuckets = 4;

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

FloatRange Shares::share(size_t b, uint32_t worker) const {
  const FloatRange bucket = buckets_[b];
  const size_t size = round_up((bucket.size() + workers_ - 1) / workers_, kUnit);
  return {std::min(bucket.end, bucket.begin + worker * size), std::min(bucket.end, bucket.begin + (worker + 1) * size)};
}

}  // namespace estrain::train
