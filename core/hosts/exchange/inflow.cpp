#include "core/hosts/exchange/inflow.h"

#include <utility>

#include "core/base/error.h"

namespace estrain::hosts {

Inflow::Inflow(std::vector<std::span<std::byte>> places) : places_(std::move(places)) {
  std::erase_if(places_, [](const std::span<std::byte>& place) { return place.empty(); });
  for (const std::span<std::byte>& place : places_) total_ += place.size();
}

std::span<std::byte> Inflow::room_for(const net::FrameHead& head) const {
  if (head.offset != bytes_ || head.bytes == 0)
    throw Error::make(Fault::corrupt, "a frame of kind {} out of turn: byte {} of {}, {} are here", head.kind,
                      head.offset, total_, bytes_);
  if (complete() || head.bytes > places_[place_].size() - in_place_)
    throw Error::make(Fault::corrupt, "a frame of kind {} with {} bytes behind byte {} of {}", head.kind, head.bytes,
                      bytes_, total_);
  return places_[place_].subspan(in_place_, head.bytes);
}

void Inflow::received(const net::FrameHead& head) {
  bytes_ += head.bytes;
  in_place_ += head.bytes;
  if (complete() || in_place_ < places_[place_].size()) return;
  ++place_;
  in_place_ = 0;
}

}  // namespace estrain::hosts
