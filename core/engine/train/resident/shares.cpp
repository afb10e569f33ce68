#include "core/engine/train/resident/shares.h"

#include <algorithm>
#include <utility>

namespace estrain::train {
namespace {

constexpr size_t kUnit = 64;                  // floats: 256 bytes, as parameters are aligned
constexpr size_t kLargestBucket = 8'000'000;  // floats; long enough for a link's full speed, short enough to overlap
constexpr size_t kFewestBuckets = 8;          // GPUs need memory for the sums of a bucket

size_t round_up(size_t floats, size_t unit) { return (floats + unit - 1) / unit * unit; }

}  // namespace

Shares::Shares(size_t floats, uint32_t workers) : workers_(workers) {
  const size_t wanted = std::min(kLargestBucket, (floats + kFewestBuckets - 1) / kFewestBuckets);
  const size_t size = std::max<size_t>(1, round_up(wanted, kUnit * workers));
  for (size_t end = floats; end > 0;) {
    const size_t begin = (end - 1) / size * size;
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
  for (size_t i = parameters(), after = 0; i-- > 0 && buckets() > 0; after = buckets_of_[i].front())
    if (buckets_of_[i].empty()) buckets_of_[i].push_back(after);
}

BucketRange OwnShares::first_parts(size_t bucket) const {
  const auto begin_of = [this](size_t b) {
    const auto is_later = [b](const std::vector<size_t>& buckets) { return buckets.front() > b; };
    return static_cast<size_t>(std::ranges::partition_point(buckets_of_, is_later) - buckets_of_.begin());
  };
  return {begin_of(bucket), bucket == 0 ? parameters() : begin_of(bucket - 1)};
}

size_t OwnShares::largest_bucket() const {
  size_t largest = 0;
  for (size_t b = 0; b < buckets(); ++b) largest = std::max(largest, bucket(b).size());
  return largest;
}

size_t OwnShares::largest_share() const {
  size_t largest = 0;
  for (size_t b = 0; b < buckets(); ++b) largest = std::max(largest, own(b).size());
  return largest;
}

std::vector<StateRegion> slot_regions(const StatePlaces& places, const OwnShares& shares) {
  std::vector<StateRegion> regions;
  for (size_t b = 0; b < shares.buckets(); ++b) {
    for (const ParameterPiece& piece : shares.pieces(b)) {
      for (size_t k = 0; k < places.optimizer.num_slots(piece.parameter); ++k)
        regions.push_back({places.optimizer.slot_offset(piece.parameter, k) + piece.begin * sizeof(float),
                           piece.size * sizeof(float)});
    }
  }
  regions = joined(std::move(regions));
  if (shares.workers() > 1 || regions.empty()) return regions;
  const size_t begin = regions.front().offset;
  return {{begin, regions.back().offset + regions.back().bytes - begin}};
}

BucketRange range_of(const ModelPlaces& places, const std::vector<size_t>& group) {
  const size_t last = group.back();
  return {places.gradient_offset(group.front()), places.gradient_offset(last) + places.elements(last)};
}

std::vector<std::vector<size_t>> groups_of(const ModelPlaces& places, size_t most) {
  std::vector<std::vector<size_t>> groups;
  for (size_t i = 0; i < places.num_parameters(); ++i) {
    if (!groups.empty()) {
      groups.back().push_back(i);
      if (range_of(places, groups.back()).size() <= most) continue;
      groups.back().pop_back();
    }
    groups.push_back({i});
  }
  return groups;
}

size_t largest_range(const ModelPlaces& places, const std::vector<std::vector<size_t>>& groups) {
  size_t largest = 0;
  for (const std::vector<size_t>& group : groups) largest = std::max(largest, range_of(places, group).size());
  return largest;
}

}  // namespace estrain::train
