#pragma once
// One worker's shares of the parameters' buckets (shares.h), and the pieces of parameters in the shares.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/engine/train/carrier/parameter_piece.h"
#include "core/engine/train/resident/shares.h"
#include "core/engine/train/state/model_places.h"

namespace estrain::train {

class OwnShares {
 public:
  OwnShares(const ModelPlaces& places, uint32_t worker, uint32_t workers);

  uint32_t worker() const { return worker_; }
  uint32_t workers() const { return workers_; }
  size_t buckets() const { return shares_.buckets(); }
  FloatRange share(size_t bucket, uint32_t worker) const { return shares_.share(bucket, worker); }

  FloatRange own(size_t bucket) const { return shares_.share(bucket, worker_); }
  // Returns the pieces of parameters in the own share.
  const std::vector<ParameterPiece>& pieces(size_t bucket) const { return pieces_[bucket]; }
  // Returns the offset of the own share in an array of all own shares, and the size of the array.
  size_t packed_at(size_t bucket) const { return packed_at_[bucket]; }
  size_t packed_floats() const { return packed_at_.back(); }

  // Return the buckets with parts of a parameter, and the number of parameters in each bucket.
  const std::vector<size_t>& buckets_of(size_t parameter) const { return buckets_of_[parameter]; }
  const std::vector<size_t>& parameters_in() const { return parameters_in_; }

 private:
  const uint32_t worker_, workers_;
  const Shares shares_;
  std::vector<std::vector<ParameterPiece>> pieces_;  // [bucket]
  std::vector<size_t> packed_at_ = {0};              // [bucket], and the end
  std::vector<std::vector<size_t>> buckets_of_;      // [parameter]
  std::vector<size_t> parameters_in_;                // [bucket]
};

}  // namespace estrain::train
