#pragma once
// A large object on its way to this host, in frames: the frames fill places in memory one after another. A frame that
// does not fit its place, or arrives out of turn, is refused.

#include <cstddef>
#include <span>
#include <vector>

#include "core/hosts/net/frame.h"

namespace estrain::hosts {

class Inflow {
 public:
  Inflow() = default;
  explicit Inflow(std::vector<std::span<std::byte>> places);

  // Throws Fault::corrupt.
  std::span<std::byte> room_for(const net::FrameHead& head) const;
  void received(const net::FrameHead& head);
  size_t bytes() const { return bytes_; }  // received so far
  bool complete() const { return bytes_ == total_; }
  void begin_anew() { bytes_ = place_ = in_place_ = 0; }

 private:
  std::vector<std::span<std::byte>> places_;
  size_t total_ = 0, bytes_ = 0;
  size_t place_ = 0, in_place_ = 0;  // where the next byte goes
};

// Cuts `parts` into the frames for an Inflow with places of these sizes: no frame crosses from a place to the next.
template <typename Send>
void cut_into_frames(uint32_t kind, uint64_t number, const std::vector<std::span<const std::byte>>& parts,
                     Send&& send) {
  uint64_t offset = 0;
  for (std::span<const std::byte> part : parts) {
    while (!part.empty()) {
      const std::span<const std::byte> piece = part.first(std::min<size_t>(part.size(), net::most_frame_bytes));
      send(net::FrameHead{kind, static_cast<uint32_t>(piece.size()), number, offset}, piece);
      offset += piece.size();
      part = part.subspan(piece.size());
    }
  }
}

}  // namespace estrain::hosts
