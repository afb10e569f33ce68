#pragma once
// A connection as it stands behind connection.h: asio's TLS stream, its greeting, its queue. For this folder alone.

#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "core/net/connection.h"
#include "core/net/engine.h"

namespace estrain::net {

Address address_of(const asio::ip::tcp::endpoint& endpoint);

class TlsConnection final : public Connection, public std::enable_shared_from_this<TlsConnection> {
 public:
  using Done = std::function<void(const Error* why)>;

  TlsConnection(Loop& loop, asio::ip::tcp::socket socket, std::shared_ptr<asio::ssl::context> context, Greeting own);

  asio::ip::tcp::socket& socket() { return stream_.next_layer(); }
  // Takes a connected socket through the TLS handshake, then exchanges greetings. Calls back once, with the error if
  // there was one.
  void open(asio::ssl::stream_base::handshake_type side, int patience_ms, Done done);

  const Greeting& peer() const override { return peer_; }
  const std::string& peer_address() const override { return peer_address_; }
  void start(FrameSink& sink, std::function<void(const Error& why)> closed) override;
  void retry() override;
  void send(const FrameHead& head, std::string payload) override;
  void send_from(const FrameHead& head, std::span<const std::byte> payload) override;
  bool ended_by_peer() const override { return ended_by_peer_; }
  size_t bytes_waiting() const override { return bytes_waiting_; }
  void close() override;

 private:
  struct Item {
    std::string kept;
    std::span<const std::byte> lies;
    size_t bytes() const { return kept.size() + lies.size(); }
  };

  void greet();
  void read_greeting(const FrameHead& head);
  void read();
  void enqueue(Item item);
  void write();
  // Runs `act`. An error in the peer's words ends the connection; an error on this side ends the loop.
  template <typename Act>
  void guarded(Act&& act);
  void lose(const asio::error_code& error);
  void fail(const Error& why);
  void shut();

  std::shared_ptr<asio::ssl::context> context_;
  asio::ssl::stream<asio::ip::tcp::socket> stream_;
  asio::steady_timer deadline_;
  const Greeting own_;
  Greeting peer_;
  std::string peer_address_;
  Done done_;
  std::function<void(const Error& why)> closed_;
  EncodedHead head_{};
  std::string greeting_;
  std::optional<FrameDecoder> decoder_;
  std::deque<Item> queue_;
  size_t bytes_waiting_ = 0;
  bool is_reading_ = false, is_writing_ = false, is_closed_ = false, ended_by_peer_ = false;
};

}  // namespace estrain::net
