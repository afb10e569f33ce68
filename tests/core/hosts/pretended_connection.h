#pragma once
// A connection to the test: the test plays the other end.

#include <cstring>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/json/json.h"
#include "core/hosts/exchange/wire.h"
#include "core/hosts/net/connection.h"

namespace estrain::hosts {

class Pretended : public net::Connection {
 public:
  explicit Pretended(int64_t term = 0, const std::string& host = "") {
    greeting_.term = term;
    greeting_.host = host;
  }

  // The other end sends messages, or is gone.
  void says(const Json& said) { says_text(said.dump()); }
  void says_text(const std::string& text) {
    const net::FrameHead head = {message, static_cast<uint32_t>(text.size()), 0, 0};
    std::memcpy(sink_->room_for(head)->data(), text.data(), text.size());
    sink_->received(head);
  }
  // The other end sends a frame of any kind. The bytes may already lie in their destination.
  void sends(uint32_t kind, uint64_t number, std::span<const std::byte> bytes, uint64_t offset = 0) {
    const net::FrameHead head = {kind, static_cast<uint32_t>(bytes.size()), number, offset};
    std::memmove(sink_->room_for(head)->data(), bytes.data(), bytes.size());
    sink_->received(head);
  }
  // The head of a frame has come, and then the first bytes of its payload.
  void begins(const net::FrameHead& head) { sink_->room_for(head); }
  void goes_on(const net::FrameHead& head, size_t bytes) { sink_->arrives(head, bytes); }
  // Whether the receiver has room for a frame.
  bool offers(const net::FrameHead& head) { return sink_->room_for(head).has_value(); }
  void is_lost() { closed_(Error(Fault::peer, "connection lost: unplugged")); }

  const net::Greeting& peer() const override { return greeting_; }
  const std::string& peer_address() const override { return address_; }
  void start(net::FrameSink& sink, std::function<void(const Error&)> closed) override {
    sink_ = &sink;
    closed_ = std::move(closed);
  }
  void retry() override {}
  void send(const net::FrameHead& head, std::string payload) override {
    ++heard_frames[head.kind];
    if (head.kind == message) heard.push_back(parse_json(payload, "test"));
    last[head.kind] = {head, std::move(payload)};
  }
  void send_from(const net::FrameHead& head, std::span<const std::byte> bytes) override {
    ++heard_frames[head.kind];
    heard_bytes[head.kind] += bytes.size();
  }
  size_t bytes_waiting() const override { return waiting; }
  bool ended_by_peer() const override { return has_ended; }
  void close() override { is_closed = true; }

  std::vector<Json> heard;
  std::map<uint32_t, size_t> heard_bytes;  // by the kind of frame, without messages
  bool is_closed = false;
  bool has_ended = false;                    // the other end has closed the connection
  size_t waiting = 0;                        // bytes that the network has not taken
  std::map<uint32_t, int64_t> heard_frames;  // by the kind of frame
  struct Frame {
    net::FrameHead head;
    std::string payload;
  };
  std::map<uint32_t, Frame> last;  // of those with a copy of their payload, by the kind

 private:
  net::Greeting greeting_;
  std::string address_;
  net::FrameSink* sink_ = nullptr;
  std::function<void(const Error&)> closed_;
};

}  // namespace estrain::hosts
