#include "core/hosts/net/frame.h"

#include <algorithm>

#include "core/base/error.h"

namespace estrain::net {
namespace {

constexpr int kWayBit = 30;
constexpr uint32_t kKind = (uint32_t{1} << kWayBit) - 1;

template <typename Number>
void put(EncodedHead& to, size_t at, Number value) {
  for (size_t i = 0; i < sizeof value; ++i) to[at + i] = static_cast<std::byte>(value >> (8 * i));
}

template <typename Number>
Number get(const EncodedHead& from, size_t at) {
  Number value = 0;
  for (size_t i = 0; i < sizeof value; ++i) value |= static_cast<Number>(from[at + i]) << (8 * i);
  return value;
}

}  // namespace

EncodedHead encode(const FrameHead& head) {
  EncodedHead bytes;
  put(bytes, 0, head.kind | static_cast<uint32_t>(head.way) << kWayBit);
  put(bytes, 4, head.bytes);
  put(bytes, 8, head.number);
  put(bytes, 16, head.offset);
  put(bytes, 24, head.packed);
  return bytes;
}

FrameHead decode(const EncodedHead& bytes) {
  const auto kind = get<uint32_t>(bytes, 0);
  const uint32_t way = kind >> kWayBit;
  if (way > static_cast<uint32_t>(Way::clear)) throw Error(Fault::corrupt, "a frame whose payload goes two ways");
  const FrameHead head = {
      kind & kKind,          get<uint32_t>(bytes, 4), get<uint64_t>(bytes, 8), get<uint64_t>(bytes, 16),
      static_cast<Way>(way), get<uint32_t>(bytes, 24)};
  if (head.kind == 0 || head.kind > most_kinds)
    throw Error::make(Fault::corrupt, "a frame of kind {}, which there is not", head.kind);
  if (head.bytes > most_frame_bytes)
    throw Error::make(Fault::corrupt, "a frame of {} bytes; at most {} are allowed", head.bytes, most_frame_bytes);
  if (head.packed != 0 && head.packed >= head.bytes)
    throw Error::make(Fault::corrupt, "a frame of {} bytes that are packed in {}", head.bytes, head.packed);
  return head;
}

FrameDecoder::FrameDecoder(FrameSink& sink) : sink_(sink) {}

std::span<std::byte> FrameDecoder::room() {
  if (at_ == At::head) return std::span(encoded_).subspan(have_);
  if (at_ == At::waiting) return {};
  return payload_.subspan(have_);
}

void FrameDecoder::advance(size_t bytes) {
  have_ += bytes;
  if (at_ == At::head && have_ == frame_head_bytes) {
    head_ = decode(encoded_);
    at_ = At::waiting;
    ask();
  } else if (at_ == At::payload && have_ == payload_.size()) {
    at_ = At::head;
    have_ = 0;
    if (head_.packed != 0) {
      unpack_floats(payload_, place_);
      packed_.reset();
    }
    sink_.received(head_);
  } else if (at_ == At::payload) {
    sink_.arrives(head_, have_);
  }
}

void FrameDecoder::retry() {
  if (at_ == At::waiting) ask();
}

void FrameDecoder::ask() {
  const auto place = sink_.room_for(head_);
  if (!place) return;
  if (place->size() != head_.bytes) throw Error(Fault::bug, "the place for a frame is not of its size");
  place_ = payload_ = *place;
  if (head_.packed != 0) {
    if (!packed_) packed_.emplace();
    payload_ = packed_->first(head_.packed);
  }
  have_ = 0;
  at_ = At::payload;
  if (payload_.empty()) advance(0);
}

}  // namespace estrain::net
