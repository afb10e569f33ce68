#pragma once
// The bytes that a connection has to send, in order.

#include <deque>
#include <optional>
#include <span>
#include <string>

#include "core/hosts/net/frame.h"
#include "core/hosts/net/packing/packed_floats.h"
#include "core/hosts/net/tls_stream.h"

namespace estrain::net {

class Outflow {
 public:
  // Adds a frame. add() keeps the payload, add_from() reads the payload in place.
  void add(FrameHead head, const std::string& payload);
  void add_from(FrameHead head, std::span<const std::byte> payload);
  // Payloads of add_from() may go without encryption. (On a slow network they are still packed.)
  void allow_clear() { may_be_clear_ = true; }
  bool may_be_clear() const { return may_be_clear_; }

  bool empty() const { return queue_.empty(); }
  size_t bytes_waiting() const { return bytes_waiting_; }
  // Sends until all bytes are sent, the stream cannot take more (would_block), another connection should have its turn
  // (interrupted), or an error occurs.
  asio::error_code send_to(TlsStream& stream);

 private:
  struct Item {
    std::string kept;  // the head, and a payload that is kept
    std::span<const std::byte> lies;
    FrameHead head;
    bool may_be_packed = false;
    size_t bytes() const { return kept.size() + lies.size(); }
    // Returns the bytes from byte `at` on that go the same way and lie in one place.
    std::span<const std::byte> rest(size_t at) const;
    Way way_at(size_t at) const { return at < frame_head_bytes ? Way::tls : head.way; }
  };
  void push(Item item);
  void pack_first();

  std::deque<Item> queue_;
  size_t sent_ = 0;  // of the first
  size_t bytes_waiting_ = 0;
  bool may_be_clear_ = false;
  std::optional<FloatPacker> packer_;  // nothing: no payload was packed yet. Holds the packed bytes of the first item
};

}  // namespace estrain::net
