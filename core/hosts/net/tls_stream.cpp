#include "core/hosts/net/tls_stream.h"

#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

#include "core/base/error.h"

namespace estrain::net {
namespace {

constexpr std::string_view kLabel = "EXPERIMENTAL estrain payloads";

asio::error_code from_errno(int number) {
  if (number == EAGAIN || number == EWOULDBLOCK || number == EINTR) return asio::error::would_block;
  return {number, asio::error::get_system_category()};
}

// Forgets earlier errors: the next errors of OpenSSL and the system then belong to the next call.
void clear_errors() {
  ::ERR_clear_error();
  errno = 0;
}

}  // namespace

TlsStream::TlsStream(asio::ip::tcp::socket socket, std::shared_ptr<asio::ssl::context> context)
    : socket_(std::move(socket)), context_(std::move(context)), session_(::SSL_new(context_->native_handle())) {
  if (!session_) throw Error(Fault::io, "OpenSSL has no memory for a session");
  SSL_set_app_data(session_.get(), &identity_);
  ::SSL_set_mode(session_.get(),
                 SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
}

asio::error_code TlsStream::shake_hands(asio::ssl::stream_base::handshake_type side) {
  if (::SSL_get_rbio(session_.get()) == nullptr) {
    asio::error_code error;
    socket_.native_non_blocking(true, error);
    if (error) return error;
    const int fd = socket_.native_handle();
    // Reads ahead and gathers what it writes, 4 KiB each way, for few system calls: frames that go by TLS are small.
    // More would be memory of every connection. Not by SSL_set_read_ahead(), which moves all bytes read ahead to the
    // front of the buffer, for every record.
    BIO* both = ::BIO_push(::BIO_new(::BIO_f_buffer()), ::BIO_new_socket(fd, BIO_NOCLOSE));
    ::SSL_set_bio(session_.get(), both, both);
    side == asio::ssl::stream_base::client ? ::SSL_set_connect_state(session_.get())
                                           : ::SSL_set_accept_state(session_.get());
  }
  clear_errors();
  return judge(::SSL_do_handshake(session_.get()), read_waits_);
}

bool TlsStream::has_proof() const { return ::SSL_session_reused(session_.get()) == 1; }

// Each end seals for one direction and opens for the opposite direction, with a secret of its own for each.
RecordSeal::Secrets TlsStream::secrets_to(Gcm::SealOrOpen work) {
  const bool from_server = (::SSL_is_server(session_.get()) == 1) == (work == Gcm::SealOrOpen::seal);
  return [session = session_.get(), from_server](uint64_t generation) {
    std::array<unsigned char, 9> context{static_cast<unsigned char>(from_server)};
    for (size_t i = 0; i < sizeof generation; ++i) context[1 + i] = static_cast<unsigned char>(generation >> (8 * i));
    RecordSeal::Secret secret;
    std::array<unsigned char, sizeof secret.key + sizeof secret.iv> bytes;
    if (::SSL_export_keying_material(session, bytes.data(), bytes.size(), kLabel.data(), kLabel.size(), context.data(),
                                     context.size(), 1) != 1)
      throw Error(Fault::io, "OpenSSL has no keys for payloads");
    std::copy_n(bytes.begin(), secret.key.size(), secret.key.begin());
    std::copy_n(bytes.begin() + secret.key.size(), secret.iv.size(), secret.iv.begin());
    ::OPENSSL_cleanse(bytes.data(), bytes.size());
    return secret;
  };
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
  if (way == Way::sealed) return open_record(into.first(std::min(into.size(), record_bytes)), bytes);
  if (way == Way::clear) return receive(into, bytes);
  clear_errors();
  return judge(::SSL_read_ex(session_.get(), into.data(), into.size(), &bytes), read_waits_);
}

// Reads past TLS, but not past bytes read ahead.
asio::error_code TlsStream::receive(std::span<std::byte> into, size_t& bytes) {
  read_waits_ = Wait::wait_read;
  clear_errors();
  BIO* in = ::SSL_get_rbio(session_.get());
  if (::BIO_read_ex(in, into.data(), into.size(), &bytes) == 1) return {};
  if (BIO_should_retry(in)) return asio::error::would_block;
  return errno == 0 ? asio::error_code(asio::error::eof) : from_errno(errno);
}

asio::error_code TlsStream::open_record(std::span<std::byte> into, size_t& bytes) {
  if (!opens_) opens_.emplace(fastest_gcm(Gcm::SealOrOpen::open), secrets_to(Gcm::SealOrOpen::open));
  if (!received_) {
    opens_->begin();
    received_ = 0;
  }
  while (*received_ < into.size() + tag_bytes) {
    const bool is_tag = *received_ >= into.size();
    const std::span<std::byte> room =
        is_tag ? std::span(tag_).subspan(*received_ - into.size()) : into.subspan(*received_);
    size_t got = 0;
    if (const asio::error_code error = receive(room, got)) return error;
    if (!is_tag) opens_->record().pass(room.first(got), room.data());
    *received_ += got;
  }
  received_.reset();
  if (!opens_->record().is_genuine(tag_)) throw Error(Fault::corrupt, "a payload that was changed on its way");
  bytes = into.size();
  return {};
}

// OpenSSL sends the word of a new key with the next call for the session. Before a write this call is the write. After
// a write it could be a read, in the middle of a payload that goes beside TLS.
void TlsStream::renew_key_before_write() {
  if (bytes_by_key_ < most_bytes_by_key) return;
  bytes_by_key_ = 0;
  ::SSL_key_update(session_.get(), SSL_KEY_UPDATE_NOT_REQUESTED);
}

asio::error_code TlsStream::write(std::span<const std::byte> from, Way way, size_t& bytes) {
  if (way == Way::tls) {
    if (const asio::error_code error = flush_records()) return error;
    clear_errors();
    renew_key_before_write();
    const asio::error_code error =
        judge(::SSL_write_ex(session_.get(), from.data(), from.size(), &bytes), write_waits_);
    if (!error) bytes_by_key_ += bytes;
    return error;
  }
  if (const asio::error_code error = flush()) return error;
  if (way == Way::sealed) {
    bytes = std::min(from.size(), record_bytes);
    seal_record(from.first(bytes));
    return {};
  }
  const ssize_t sent = ::send(socket_.native_handle(), from.data(), from.size(), MSG_NOSIGNAL);
  if (sent < 0) return from_errno(errno);
  bytes = static_cast<size_t>(sent);
  return {};
}

void TlsStream::seal_record(std::span<const std::byte> from) {
  if (!seals_) seals_.emplace(fastest_gcm(Gcm::SealOrOpen::seal), secrets_to(Gcm::SealOrOpen::seal));
  const std::span<std::byte> record = sealed_.emplace().first(from.size() + tag_bytes);
  seals_->begin();
  seals_->record().pass(from, record.data());
  const Gcm::Tag tag = seals_->record().tag();
  std::ranges::copy(tag, record.last(tag_bytes).begin());
  rest_of_record_ = record;
}

// At most one of the two has bytes to send.
asio::error_code TlsStream::flush() {
  if (const asio::error_code error = flush_tls()) return error;
  return flush_records();
}

asio::error_code TlsStream::flush_records() {
  write_waits_ = Wait::wait_write;
  while (!rest_of_record_.empty()) {
    const ssize_t sent = ::send(socket_.native_handle(), rest_of_record_.data(), rest_of_record_.size(), MSG_NOSIGNAL);
    if (sent < 0) return from_errno(errno);
    rest_of_record_ = rest_of_record_.subspan(static_cast<size_t>(sent));
  }
  sealed_.reset();
  return {};
}

asio::error_code TlsStream::flush_tls() {
  write_waits_ = Wait::wait_write;
  BIO* out = ::SSL_get_wbio(session_.get());
  errno = 0;
  if (BIO_flush(out) > 0) return {};
  if (BIO_should_retry(out)) return asio::error::would_block;
  return errno == 0 ? asio::error_code(asio::error::eof) : from_errno(errno);
}

}  // namespace estrain::net
