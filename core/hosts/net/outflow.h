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
  // A frame whose payload is kept here, and one whose payload is read where it lies.
  void add(FrameHead head, const std::string& payload);
  void add_from(FrameHead head, std::span<const std::byte> payload);
  // Payloads of add_from() may go as they are. (On a slow network they are packed all the same.)
  void allow_clear() { may_be_clear_ = true; }
  bool may_be_clear() const { return may_be_clear_; }

  bool empty() const { return queue_.empty(); }
  size_t bytes_waiting() const { return bytes_waiting_; }
  // Sends until all is sent, the stream cannot take more (would_block), others should have their turn (interrupted), or
  // something is wrong.
  asio::error_code send_to(TlsStream& stream);

 private:
  struct Item {
    std::string kept;  // the head, and the payload if it does not lie somewhere
    std::span<const std::byte> lies;
    FrameHead head;
    bool may_be_packed = false;
    size_t bytes() const { return kept.size() + lies.size(); }
    // The bytes from byte `at` on that go the same way and lie in one place.
    std::span<const std::byte> rest(size_t at) const;
    Way way_at(size_t at) const { return at < frame_head_bytes ? Way::tls : head.way; }
  };
  void push(Item item);
  void pack_first();

  std::deque<Item> queue_;
  size_t sent_ = 0;  // of the first
  size_t bytes_waiting_ = 0;
  bool may_be_clear_ = false;
  std::optional<FloatPacker> packer_;  // nothing: no payload was packed yet. It holds what the first item has packed
};

}  // namespace estrain::net
