#include "core/hosts/exchange/inflow.h"

#include <utility>

#include "core/base/error.h"

namespace estrain::hosts {

Inflow::Inflow(std::vector<std::span<std::byte>> places) : places_(std::move(places)) {
  for (const std::span<std::byte>& place : places_) total_ += place.size();
}

std::span<std::byte> Inflow::room_for(const net::FrameHead& head) const {
  if (head.offset != bytes_ || head.bytes == 0)
    throw Error::make(Fault::corrupt, "a frame of kind {} out of turn: byte {} of {}, {} are here", head.kind,
                      head.offset, total_, bytes_);
  size_t begin = 0;
  for (const std::span<std::byte>& place : places_) {
    const size_t at = bytes_ - begin;
    if (bytes_ >= begin && at < place.size()) {
      if (head.bytes > place.size() - at) break;
      return place.subspan(at, head.bytes);
    }
    begin += place.size();
  }
  throw Error::make(Fault::corrupt, "a frame of kind {} with {} bytes behind byte {} of {}", head.kind, head.bytes,
                    bytes_, total_);
}

}  // namespace estrain::hosts
