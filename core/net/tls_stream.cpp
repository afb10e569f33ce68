#include "core/net/tls_stream.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "core/base/error.h"

namespace estrain::net {
namespace {

constexpr long kBuffered = 128 << 10;  // bytes for one call of the system, of several records
// AES-GCM may encrypt 2^24.5 records by one key (RFC 8446, section 5.5): 380 GB in full ones.
constexpr size_t kMostBytesByKey = size_t{1} << 36;

asio::error_code from_errno(int number) {
  if (number == EAGAIN || number == EWOULDBLOCK || number == EINTR) return asio::error::would_block;
  return {number, asio::error::get_system_category()};
}

// Forgets earlier errors: those that OpenSSL and the system report next belong to the next call.
void clear_errors() {
  ::ERR_clear_error();
  errno = 0;
}

}  // namespace

TlsStream::TlsStream(asio::ip::tcp::socket socket, std::shared_ptr<asio::ssl::context> context)
    : socket_(std::move(socket)), context_(std::move(context)), session_(::SSL_new(context_->native_handle())) {
  if (!session_) throw Error(Fault::io, "OpenSSL has no memory for a session");
  ::SSL_set_mode(session_.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
}

asio::error_code TlsStream::shake_hands(asio::ssl::stream_base::handshake_type side) {
  if (::SSL_get_rbio(session_.get()) == nullptr) {
    asio::error_code error;
    socket_.native_non_blocking(true, error);
    if (error) return error;
    const int fd = socket_.native_handle();
    BIO* out = ::BIO_push(::BIO_new(::BIO_f_buffer()), ::BIO_new_socket(fd, BIO_NOCLOSE));
    BIO_set_write_buffer_size(out, kBuffered);
    ::SSL_set0_rbio(session_.get(), ::BIO_new_socket(fd, BIO_NOCLOSE));
    ::SSL_set0_wbio(session_.get(), out);
    side == asio::ssl::stream_base::client ? ::SSL_set_connect_state(session_.get())
                                           : ::SSL_set_accept_state(session_.get());
  }
  clear_errors();
  return judge(::SSL_do_handshake(session_.get()), read_waits_);
}

bool TlsStream::has_proof() const { return ::SSL_session_reused(session_.get()) == 1; }

// Not by SSL_set_read_ahead(): that moves all that it has read ahead to the front of its buffer, for every record.
void TlsStream::read_ahead() {
  BIO* in = ::BIO_push(::BIO_new(::BIO_f_buffer()), ::BIO_new_socket(socket_.native_handle(), BIO_NOCLOSE));
  BIO_set_read_buffer_size(in, kBuffered);
  ::SSL_set0_rbio(session_.get(), in);
}

asio::error_code TlsStream::judge(int result, Wait& waits) {
  switch (::SSL_get_error(session_.get(), result)) {
    case SSL_ERROR_NONE:
      return {};
    case SSL_ERROR_WANT_READ:
      waits = Wait::wait_read;
      return asio::error::would_block;
    case SSL_ERROR_WANT_WRITE:
      waits = Wait::wait_write;
      return asio::error::would_block;
    case SSL_ERROR_ZERO_RETURN:
      return asio::error::eof;
    case SSL_ERROR_SYSCALL:
      return errno == 0 ? asio::error_code(asio::error::eof) : from_errno(errno);
    default:
      break;
  }
  const unsigned long why = ::ERR_get_error();
  if (ERR_GET_REASON(why) == SSL_R_UNEXPECTED_EOF_WHILE_READING) return asio::ssl::error::stream_truncated;
  return {static_cast<int>(why), asio::error::get_ssl_category()};
}

asio::error_code TlsStream::read(std::span<std::byte> into, Way way, size_t& bytes) {
  if (way == Way::encrypted) {
    clear_errors();
    return judge(::SSL_read_ex(session_.get(), into.data(), into.size(), &bytes), read_waits_);
  }
  read_waits_ = Wait::wait_read;
  const ssize_t got = ::recv(socket_.native_handle(), into.data(), into.size(), 0);
  if (got < 0) return from_errno(errno);
  bytes = static_cast<size_t>(got);
  return got == 0 ? asio::error_code(asio::error::eof) : asio::error_code();
}

void TlsStream::renew_key(size_t bytes) {
  bytes_by_key_ += bytes;
  if (bytes_by_key_ < kMostBytesByKey) return;
  bytes_by_key_ = 0;
  ::SSL_key_update(session_.get(), SSL_KEY_UPDATE_NOT_REQUESTED);
}

asio::error_code TlsStream::write(std::span<const std::byte> from, Way way, size_t& bytes) {
  if (way == Way::encrypted) {
    clear_errors();
    const asio::error_code error =
        judge(::SSL_write_ex(session_.get(), from.data(), from.size(), &bytes), write_waits_);
    if (!error) renew_key(bytes);
    return error;
  }
  if (const asio::error_code error = flush()) return error;
  const ssize_t sent = ::send(socket_.native_handle(), from.data(), from.size(), MSG_NOSIGNAL);
  if (sent < 0) return from_errno(errno);
  bytes = static_cast<size_t>(sent);
  return {};
}

asio::error_code TlsStream::flush() {
  write_waits_ = Wait::wait_write;
  BIO* out = ::SSL_get_wbio(session_.get());
  errno = 0;
  if (BIO_flush(out) > 0) return {};
  if (BIO_should_retry(out)) return asio::error::would_block;
  return errno == 0 ? asio::error_code(asio::error::eof) : from_errno(errno);
}

}  // namespace estrain::net
