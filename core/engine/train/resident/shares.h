#pragma once
// Decides which device updates which parameters in a job on several devices (exchanged_update.h).
//
// The parameters, in the order of the state, are cut into buckets. The backward pass reaches the last parameters first,
// so bucket 0 is at the end. Each bucket is cut into one share for each worker: all shares of a bucket have one size,
// except in bucket 0, which has the rest. Cuts are at multiples of 64 floats, also within parameters. The cuts do not
// affect the bits, since sums and updates go element by element.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/engine/train/state/state_places.h"
#include "core/engine/train/workplace/resident_state.h"

namespace estrain::train {

struct BucketRange {
  size_t begin = 0, end = 0;

  size_t size() const { return end - begin; }
};

class Shares {
 public:
  // Cuts an array of `floats` elements.
  Shares(size_t floats, uint32_t workers);

  size_t buckets() const { return buckets_.size(); }
  // Bucket 0 is the last in memory.
  BucketRange bucket(size_t b) const { return buckets_[b]; }
  // Returns a worker's share of a bucket; a share may be empty.
  BucketRange share(size_t b, uint32_t worker) const;
  // Returns whether all shares of a bucket have one size.
  bool is_even(size_t b) const { return bucket(b).size() == workers_ * share(b, 0).size(); }

 private:
  uint32_t workers_;
  std::vector<BucketRange> buckets_;
};

// OwnShares are one worker's shares of the parameters' buckets, and the pieces of parameters in the shares.
class OwnShares {
 public:
  OwnShares(const ModelPlaces& places, uint32_t worker, uint32_t workers);

  size_t parameters() const { return buckets_of_.size(); }
  // Returns the offset of a piece in the array of all parameters.
  size_t offset(const ParameterPiece& piece) const { return offsets_[piece.parameter] + piece.begin; }

  uint32_t worker() const { return worker_; }
  uint32_t workers() const { return workers_; }
  size_t buckets() const { return shares_.buckets(); }
  BucketRange share(size_t bucket, uint32_t worker) const { return shares_.share(bucket, worker); }
  bool is_even(size_t bucket) const { return shares_.is_even(bucket); }

  BucketRange bucket(size_t bucket) const { return shares_.bucket(bucket); }
  // Return numbers of elements: of the largest bucket, and of the largest own share.
  size_t largest_bucket() const;
  size_t largest_share() const;
  BucketRange own(size_t bucket) const { return shares_.share(bucket, worker_); }
  // Return the pieces of parameters in the own share, and in the whole bucket.
  const std::vector<ParameterPiece>& pieces(size_t bucket) const { return pieces_[bucket]; }
  const std::vector<ParameterPiece>& parts(size_t bucket) const { return parts_[bucket]; }
  // Returns the offset of the own share in an array of all own shares, and the size of the array.
  size_t packed_at(size_t bucket) const { return packed_at_[bucket]; }
  size_t packed_floats() const { return packed_at_.back(); }

  // Returns the buckets with parts of a parameter, in the order of the buckets. A parameter without elements counts as
  // a part of the bucket after it.
  const std::vector<size_t>& buckets_of(size_t parameter) const { return buckets_of_[parameter]; }
  // Returns the parameters that a bucket is the first one of.
  BucketRange first_parts(size_t bucket) const;

 private:
  const uint32_t worker_, workers_;
  const Shares shares_;
  std::vector<size_t> offsets_;                              // [parameter]
  std::vector<std::vector<ParameterPiece>> pieces_, parts_;  // [bucket]
  std::vector<size_t> packed_at_ = {0};                      // [bucket], and the end
  std::vector<std::vector<size_t>> buckets_of_;              // [parameter]
};

// Returns the regions of the state with the optimizer slots of the own shares. A worker alone has one region, to need
// one copy: the region also covers the counts of updates, which are the host's.
std::vector<StateRegion> slot_regions(const StatePlaces& places, const OwnShares& shares);

// Groups neighbouring parameters, so that each group of several parameters has at most `most` elements.
std::vector<std::vector<size_t>> groups_of(const ModelPlaces& places, size_t most);
// Returns the elements of a group in the array of all parameters.
BucketRange range_of(const ModelPlaces& places, const std::vector<size_t>& group);
size_t largest_range(const ModelPlaces& places, const std::vector<std::vector<size_t>>& groups);

}  // namespace estrain::train
