#pragma once
// The places of each EST's random streams and last loss in a copy of the state.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/ids.h"
#include "core/state/checkpoint/state/state_layout.h"

namespace estrain::train {

// The random streams of each EST.
struct EstStreams {
  bool cuda = false;        // has a CUDA generator besides the CPU's
  size_t python_bytes = 0;  // of the streams of a Python module; 0: no streams
};

class EstPlaces {
 public:
  // Appends the places to `layout`, EST by EST.
  EstPlaces(int64_t ests, const EstStreams& streams, checkpoint::StateLayout& layout);

  EstRange all() const { return {VirtualRank(0), VirtualRank(static_cast<int64_t>(ests_.size()))}; }

  std::byte* generator(std::byte* base, VirtualRank rank) const { return base + of(rank).generator; }
  bool has_cuda_streams() const { return has_cuda_streams_; }
  std::byte* cuda_generator(std::byte* base, VirtualRank rank) const { return base + of(rank).cuda_generator; }
  size_t python_bytes() const { return python_bytes_; }  // of an EST's streams of a Python module; 0: no streams
  std::byte* python_streams(std::byte* base, VirtualRank rank) const { return base + of(rank).python_streams; }
  float* last_loss(std::byte* base, VirtualRank rank) const {
    return reinterpret_cast<float*>(base + of(rank).last_loss);
  }

 private:
  struct Est {
    uint64_t generator = 0, last_loss = 0, python_streams = 0, cuda_generator = 0;
  };

  const Est& of(VirtualRank rank) const { return ests_[static_cast<size_t>(rank.value)]; }

  bool has_cuda_streams_;
  size_t python_bytes_;
  std::vector<Est> ests_;
};

}  // namespace estrain::train
