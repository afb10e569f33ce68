#pragma once
// TLS on one TCP socket: OpenSSL reads from the socket to where the bytes are wanted and writes from where they lie;
// asio waits. Bytes may also go past TLS, as they are, between two records. For this folder alone.
//
// Nothing here blocks. A function that cannot go on returns asio::error::would_block: wait() as it says, then call it
// again with the same arguments.

#include <functional>
#include <memory>
#include <span>

#include "core/net/engine.h"

namespace estrain::net {

class TlsStream {
 public:
  enum class Way { encrypted, clear };

  TlsStream(asio::ip::tcp::socket socket, std::shared_ptr<asio::ssl::context> context);
  TlsStream(const TlsStream&) = delete;
  TlsStream& operator=(const TlsStream&) = delete;

  asio::ip::tcp::socket& socket() { return socket_; }

  // The socket is connected.
  asio::error_code shake_hands(asio::ssl::stream_base::handshake_type side);
  // After the handshake: whether both proved that they have the key.
  bool has_proof() const;
  // No byte of this connection will be in clear: more is read from the socket at a time than one record.
  void read_ahead();

  // At least one byte.
  asio::error_code read(std::span<std::byte> into, Way way, size_t& bytes);
  // At least one byte; it may wait here until flush(). Both ways: what is encrypted is flushed before what is not.
  asio::error_code write(std::span<const std::byte> from, Way way, size_t& bytes);
  asio::error_code flush();

  // Calls back once the socket can do what the last read (or write) waits for.
  void wait_to_read(std::function<void(asio::error_code)> ready) { socket_.async_wait(read_waits_, std::move(ready)); }
  void wait_to_write(std::function<void(asio::error_code)> ready) {
    socket_.async_wait(write_waits_, std::move(ready));
  }

 private:
  using Wait = asio::ip::tcp::socket::wait_type;
  struct Free {
    void operator()(SSL* session) const { ::SSL_free(session); }
  };
  asio::error_code judge(int result, Wait& waits);
  void renew_key(size_t bytes);

  asio::ip::tcp::socket socket_;
  const std::shared_ptr<asio::ssl::context> context_;
  std::unique_ptr<SSL, Free> session_;
  Wait read_waits_ = Wait::wait_read, write_waits_ = Wait::wait_write;
  size_t bytes_by_key_ = 0;
};

}  // namespace estrain::net
