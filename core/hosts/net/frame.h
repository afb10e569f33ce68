#pragma once
// Frames: the messages of two hosts over a connection that keeps order and loses no byte (connection.h).
//
//   bytes 0-3  kind; bits 30, 31: the payload goes beside TLS | 4-7  bytes of payload | 8-15  number | 16-23  offset |
//   24-27  bytes of the packed payload, if it is packed (packing/packed_floats.h); 0: not packed;
//   then the payload; all little-endian
//
// A frame has at most 1 MiB: larger payloads go in pieces, each with its offset. The kind decides the meaning of
// `number`. No number from the wire decides how much memory is allocated: the receiver chooses the place of a payload,
// and has allocated the place before.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/hosts/net/packing/packed_floats.h"

namespace estrain::net {

inline constexpr size_t frame_head_bytes = 28;
inline constexpr uint32_t most_frame_bytes = 1 << 20;
inline constexpr uint32_t most_kinds = 64;

// The way of bytes over the wire. Heads go by TLS; a large payload may go beside TLS, after its head.
enum class Way : uint8_t {
  tls,
  sealed,  // in records encrypted by keys of the same handshake (secrecy/seal.h); bit 30
  clear,   // without encryption; bit 31
};

struct FrameHead {
  uint32_t kind = 0;   // 1 to most_kinds; 0 is no kind
  uint32_t bytes = 0;  // of the payload
  uint64_t number = 0;
  uint64_t offset = 0;
  Way way = Way::tls;   // of the payload
  uint32_t packed = 0;  // bytes of the packed payload, if it is packed

  bool operator==(const FrameHead&) const = default;
};

using EncodedHead = std::array<std::byte, frame_head_bytes>;
EncodedHead encode(const FrameHead& head);
// Throws Fault::corrupt if the kind is invalid, the payload too long, or the packed payload not shorter.
FrameHead decode(const EncodedHead& bytes);

// A receiver of frames. Both functions may throw Error, which closes the connection and is the reason given.
class FrameSink {
 public:
  virtual ~FrameSink() = default;
  // Returns the place of the payload: head.bytes of memory, which stays until received(). Nothing: no room yet; the
  // frame waits until FrameDecoder::retry().
  virtual std::optional<std::span<std::byte>> room_for(const FrameHead& head) = 0;
  virtual void received(const FrameHead& head) = 0;
  // Hears that the first `bytes` of the payload have come, as they go over the wire: a slow network takes long for one
  // frame.
  virtual void arrives(const FrameHead&, size_t /*bytes*/) {}
};

// Turns a stream of bytes, cut anywhere, into frames. Payloads are read straight to the sink's place, without a copy,
// unless they are packed.
class FrameDecoder {
 public:
  explicit FrameDecoder(FrameSink& sink);

  // Where the next bytes of the stream go; empty: the sink has no room yet.
  std::span<std::byte> room();
  // Takes note of `bytes` written to room().
  void advance(size_t bytes);
  // Asks the sink again.
  void retry();
  // How the bytes for room() come.
  Way way() const { return at_ == At::payload ? head_.way : Way::tls; }

 private:
  void ask();

  FrameSink& sink_;
  EncodedHead encoded_{};
  FrameHead head_;
  std::span<std::byte> place_, payload_;  // where the payload goes, and where its bytes are read to
  std::optional<LentBuffer> packed_;      // while a packed payload arrives
  size_t have_ = 0;                       // of the head, or of the payload
  enum class At { head, waiting, payload } at_ = At::head;
};

}  // namespace estrain::net
