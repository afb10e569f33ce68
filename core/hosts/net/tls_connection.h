#pragma once
// The implementation of connection.h: a stream with TLS, the frames waiting to be sent, the frame being read. For this
// folder alone.

#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "core/hosts/net/connection.h"
#include "core/hosts/net/engine.h"
#include "core/hosts/net/frame.h"
#include "core/hosts/net/packing/packed_floats.h"
#include "core/hosts/net/tls_stream.h"

namespace estrain::net {

Address address_of(const asio::ip::tcp::endpoint& endpoint);

// The bytes that a connection has to send, in order.
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
  void pack_first(bool codes);

  std::deque<Item> queue_;
  size_t sent_ = 0;  // of the first
  size_t bytes_waiting_ = 0;
  bool may_be_clear_ = false;
  std::optional<FloatPacker>
      packer_;  // of the first item, whose packed bytes lie there; nothing: the item is not packed
};

class TlsConnection final : public Connection, public std::enable_shared_from_this<TlsConnection> {
 public:
  using Done = std::function<void(const Error* why)>;

  TlsConnection(Loop& loop, asio::ip::tcp::socket socket, std::shared_ptr<asio::ssl::context> context, Greeting own);

  asio::ip::tcp::socket& socket() { return stream_.socket(); }
  // Takes a connected socket through the TLS handshake, then exchanges greetings. Calls back once, with the error after
  // a failure.
  void open(asio::ssl::stream_base::handshake_type side, Nanoseconds patience, Done done);

  const Greeting& peer() const override { return peer_; }
  const std::string& peer_address() const override { return peer_address_; }
  void start(FrameSink& sink, std::function<void(const Error& why)> closed) override;
  void retry() override;
  void send(const FrameHead& head, std::string payload) override;
  void send_from(const FrameHead& head, std::span<const std::byte> payload) override;
  bool ended_by_peer() const override { return ended_by_peer_; }
  size_t bytes_waiting() const override { return outflow_.bytes_waiting(); }
  void close() override;

 private:
  // The first frame of a peer.
  struct Hello : FrameSink {
    std::optional<std::span<std::byte>> room_for(const FrameHead& head) override;
    void received(const FrameHead&) override { complete = true; }
    std::string text;
    bool complete = false;
  };

  bool is_client() const { return side_ == asio::ssl::stream_base::client; }
  void shake_hands();
  void take_greeting();
  void require_right_end();
  void read();
  size_t read_some();
  void write();
  void post(void (TlsConnection::*act)());
  // Runs `act`. An error in the peer's words ends the connection; an error on this side ends the loop.
  template <typename Act>
  void guarded(Act&& act);
  void lose(const asio::error_code& error);
  void fail(const Error& why);
  void shut();

  TlsStream stream_;
  asio::steady_timer deadline_;
  asio::ssl::stream_base::handshake_type side_ = asio::ssl::stream_base::client;
  const Greeting own_;
  Greeting peer_;
  std::string peer_address_;
  Done done_;
  std::function<void(const Error& why)> closed_;
  Hello hello_;
  std::optional<FrameDecoder> decoder_;  // nothing: between the greeting and start()
  Outflow outflow_;
  bool is_reading_ = false, is_writing_ = false, is_closed_ = false, ended_by_peer_ = false;
};

}  // namespace estrain::net
