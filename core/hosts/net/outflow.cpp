#include "core/hosts/net/outflow.h"

#include <algorithm>
#include <utility>

#include "core/hosts/net/tcp_socket.h"

namespace estrain::net {
namespace {

constexpr size_t kMostBytesAtATime = 256 << 10;
constexpr size_t kLeastSealed = 4 << 10;  // smaller payloads go by TLS, many frames in one system call
constexpr size_t kLeastPacked = 16 << 10;
// Bytes a second. Packing and unpacking a byte take 0.8 ns of a core, as long as a network of this rate takes for 1/6.
constexpr double kSlowNetwork = 200e6;

std::string text_of(const FrameHead& head) {
  const EncodedHead encoded = encode(head);
  return {reinterpret_cast<const char*>(encoded.data()), encoded.size()};
}

}  // namespace

std::span<const std::byte> Outflow::Item::rest(size_t at) const {
  const std::span<const std::byte> own = std::as_bytes(std::span(kept));
  if (at < frame_head_bytes && head.way != Way::tls) return own.subspan(at, frame_head_bytes - at);
  return at < own.size() ? own.subspan(at) : lies.subspan(at - own.size());
}

void Outflow::add(FrameHead head, const std::string& payload) {
  if (payload.size() >= kLeastSealed) head.way = Way::sealed;
  push({.kept = text_of(head) + payload, .lies = {}, .head = head});
}

void Outflow::add_from(FrameHead head, std::span<const std::byte> payload) {
  head.way = may_be_clear_ ? Way::clear : payload.size() < kLeastSealed ? Way::tls : Way::sealed;
  push({.kept = text_of(head), .lies = payload, .head = head, .may_be_packed = payload.size() >= kLeastPacked});
}

void Outflow::push(Item item) {
  bytes_waiting_ += item.bytes();
  queue_.push_back(std::move(item));
}

// Packs the first item, of which nothing has been sent.
void Outflow::pack_first() {
  Item& first = queue_.front();
  first.may_be_packed = false;
  if (!packer_) packer_.emplace();
  const std::span<const std::byte> packed = packer_->pack(first.lies);
  if (packed.empty()) return;
  bytes_waiting_ -= first.bytes();
  first.head.packed = static_cast<uint32_t>(packed.size());
  first.kept = text_of(first.head);
  first.lies = packed;
  bytes_waiting_ += first.bytes();
}

asio::error_code Outflow::send_to(TlsStream& stream) {
  for (size_t turn = 0; !queue_.empty();) {
    if (turn >= kMostBytesAtATime) return asio::error::interrupted;
    if (queue_.front().may_be_packed && sent_ == 0 &&
        network_rate(stream.descriptor()).value_or(kSlowNetwork) < kSlowNetwork)
      pack_first();
    const Item& first = queue_.front();
    size_t bytes = 0;
    const std::span<const std::byte> rest = first.rest(sent_);
    const std::span<const std::byte> piece = rest.first(std::min(rest.size(), kMostBytesAtATime));
    if (const asio::error_code error = stream.write(piece, first.way_at(sent_), bytes)) return error;
    sent_ += bytes;
    turn += bytes;
    if (sent_ < first.bytes()) continue;
    bytes_waiting_ -= first.bytes();
    queue_.pop_front();
    sent_ = 0;
  }
  return stream.flush();
}

}  // namespace estrain::net
