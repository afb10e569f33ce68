#pragma once
// TLS on one TCP socket: OpenSSL reads and writes, asio waits. Bytes may also go past TLS, between two TLS records:
// sealed (secrecy/seal.h) or in clear. Such bytes are received straight in their place, without a copy. For this folder
// alone.
//
// No function blocks. A function that cannot continue returns asio::error::would_block: call wait_to_read() or
// wait_to_write(), then the function again with the same arguments. A connection closed by the peer is
// asio::error::eof. For the thread of the Loop.

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "core/hosts/net/engine.h"
#include "core/hosts/net/frame.h"
#include "core/hosts/net/packing/packed_floats.h"
#include "core/hosts/net/secrecy/seal.h"

namespace estrain::net {

class TlsStream {
 public:
  // AES-GCM may encrypt 2^24.5 records by one key (RFC 8446, section 5.5): 380 GB in full records. Tests set fewer
  // bytes.
  static inline size_t most_bytes_by_key = size_t{1} << 36;

  TlsStream(asio::ip::tcp::socket socket, std::shared_ptr<asio::ssl::context> context);
  TlsStream(const TlsStream&) = delete;
  TlsStream& operator=(const TlsStream&) = delete;

  asio::ip::tcp::socket& socket() { return socket_; }
  int descriptor() { return socket_.native_handle(); }

  // The client's claim (tls.h), the source of the session's key. The client's identity is set before the handshake; the
  // server has the identity after the handshake.
  std::string& identity() { return identity_; }
  asio::ssl::context& context() { return *context_; }

  // The socket is connected.
  asio::error_code shake_hands(asio::ssl::stream_base::handshake_type side);
  // After the handshake: true if both ends have proved the key.
  bool has_proof() const;

  // Reads at least one byte, and sets `bytes`. Sealed bytes come a record at a time: `into` is the rest of a payload,
  // with undefined content until the whole record has arrived and is known to be genuine. Throws Fault::corrupt for a
  // record that was changed on its way.
  asio::error_code read(std::span<std::byte> into, Way way, size_t& bytes);
  // Takes at least one byte, and sets `bytes`. The bytes may wait in this stream until flush(). Bytes that go another
  // way than earlier bytes are sent after these.
  asio::error_code write(std::span<const std::byte> from, Way way, size_t& bytes);
  asio::error_code flush();

  // Calls back once the socket is ready for the last read (or write).
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
  void renew_key_before_write();
  RecordSeal::Secrets secrets_to(Gcm::SealOrOpen work);
  asio::error_code receive(std::span<std::byte> into, size_t& bytes);
  asio::error_code open_record(std::span<std::byte> into, size_t& bytes);
  void seal_record(std::span<const std::byte> from);
  asio::error_code flush_tls();
  asio::error_code flush_records();

  asio::ip::tcp::socket socket_;
  const std::shared_ptr<asio::ssl::context> context_;
  std::string identity_;
  std::unique_ptr<SSL, Free> session_;
  Wait read_waits_ = Wait::wait_read, write_waits_ = Wait::wait_write;
  size_t bytes_by_key_ = 0;
  std::optional<RecordSeal> seals_, opens_;
  std::optional<LentBuffer> sealed_;           // the memory of rest_of_record_; nothing: no record waits
  std::span<const std::byte> rest_of_record_;  // of a record and its tag, waiting for the socket
  Gcm::Tag tag_{};                             // of the record being received
  std::optional<size_t> received_;             // of that record and its tag; nothing: no record has begun
};

}  // namespace estrain::net
