#include "core/net/tls_connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <array>
#include <utility>

#include "core/net/tls.h"

namespace estrain::net {
namespace {

using asio::ip::tcp;

constexpr uint32_t kGreetingKind = 1;
constexpr unsigned kSilenceMilliseconds = 1500;  // of what was sent and not acknowledged

void set_options(tcp::socket& socket) {
  asio::error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  const unsigned silence = kSilenceMilliseconds;
  ::setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_USER_TIMEOUT, &silence, sizeof silence);
}

bool is_end(const asio::error_code& error) {
  return error == asio::error::eof || error == asio::error::connection_reset || error == asio::error::broken_pipe ||
         error == asio::ssl::error::stream_truncated;
}

}  // namespace

Address address_of(const tcp::endpoint& endpoint) { return {endpoint.address().to_string(), endpoint.port()}; }

TlsConnection::TlsConnection(Loop& loop, tcp::socket socket, std::shared_ptr<asio::ssl::context> context, Greeting own)
    : context_(std::move(context)),
      stream_(std::move(socket), *context_),
      deadline_(loop.engine().context),
      own_(std::move(own)) {}

template <typename Act>
void TlsConnection::guarded(Act&& act) {
  try {
    act();
  } catch (const Error& error) {
    if (error.fault() == Fault::bug) throw;
    fail(error);
  }
}

void TlsConnection::open(asio::ssl::stream_base::handshake_type side, int patience_ms, Done done) {
  done_ = std::move(done);
  set_options(socket());
  asio::error_code ignored;
  peer_address_ = address_of(socket().remote_endpoint(ignored)).text();
  deadline_.expires_after(std::chrono::milliseconds(patience_ms));
  deadline_.async_wait([self = shared_from_this()](asio::error_code error) {
    if (!error && self->done_) self->fail(Error(Fault::peer, "no greeting in time"));
  });
  stream_.async_handshake(side, [self = shared_from_this()](asio::error_code error) {
    if (error) return self->fail(Error(Fault::peer, "no TLS by the run's key: " + error.message()));
    if (!proved(self->stream_.native_handle()))
      return self->fail(Error(Fault::peer, "the peer does not have the run's key"));
    self->greet();
  });
}

void TlsConnection::start(FrameSink& sink, std::function<void(const Error& why)> closed) {
  closed_ = std::move(closed);
  decoder_.emplace(sink);
  read();
}

void TlsConnection::retry() {
  if (!decoder_ || is_closed_) return;
  guarded([&] { decoder_->retry(); });
  read();
}

void TlsConnection::send(const FrameHead& head, std::string payload) {
  const EncodedHead encoded = encode(head);
  std::string bytes(reinterpret_cast<const char*>(encoded.data()), encoded.size());
  bytes += payload;
  enqueue({std::move(bytes), {}});
}

void TlsConnection::send_from(const FrameHead& head, std::span<const std::byte> payload) {
  const EncodedHead encoded = encode(head);
  enqueue({std::string(reinterpret_cast<const char*>(encoded.data()), encoded.size()), payload});
}

void TlsConnection::close() {
  closed_ = nullptr;
  shut();
}

void TlsConnection::greet() {
  const std::string text = own_.to_json();
  send({.kind = kGreetingKind, .bytes = static_cast<uint32_t>(text.size())}, text);
  asio::async_read(stream_, asio::buffer(head_), [self = shared_from_this()](asio::error_code error, size_t) {
    if (error) return self->fail(Error(Fault::peer, "no greeting: " + error.message()));
    self->guarded([&] { self->read_greeting(decode(self->head_)); });
  });
}

void TlsConnection::read_greeting(const FrameHead& head) {
  if (head.kind != kGreetingKind || head.bytes > most_greeting_bytes)
    throw Error(Fault::corrupt, "something else than a greeting");
  greeting_.resize(head.bytes);
  asio::async_read(stream_, asio::buffer(greeting_), [self = shared_from_this()](asio::error_code error, size_t) {
    if (error) return self->fail(Error(Fault::peer, "half a greeting: " + error.message()));
    self->guarded([&] {
      self->peer_ = Greeting::from_json(self->greeting_);
      require_same_program(self->own_, self->peer_);
      self->deadline_.cancel();
      if (const Done done = std::exchange(self->done_, nullptr)) done(nullptr);
    });
  });
}

void TlsConnection::read() {
  if (is_closed_ || is_reading_) return;
  const std::span<std::byte> room = decoder_->room();
  if (room.empty()) return;
  is_reading_ = true;
  stream_.async_read_some(asio::buffer(room.data(), room.size()),
                          [self = shared_from_this()](asio::error_code error, size_t bytes) {
                            self->is_reading_ = false;
                            if (self->is_closed_) return;
                            if (error) return self->lose(error);
                            self->guarded([&] { self->decoder_->advance(bytes); });
                            self->read();
                          });
}

void TlsConnection::enqueue(Item item) {
  if (is_closed_) return;
  bytes_waiting_ += item.bytes();
  queue_.push_back(std::move(item));
  write();
}

void TlsConnection::write() {
  if (is_writing_ || queue_.empty() || is_closed_) return;
  is_writing_ = true;
  const Item& first = queue_.front();
  const std::array<asio::const_buffer, 2> buffers = {asio::buffer(first.kept),
                                                     asio::buffer(first.lies.data(), first.lies.size())};
  asio::async_write(stream_, buffers, [self = shared_from_this()](asio::error_code error, size_t) {
    self->is_writing_ = false;
    if (self->is_closed_) return;
    if (error) return self->lose(error);
    self->bytes_waiting_ -= self->queue_.front().bytes();
    self->queue_.pop_front();
    self->write();
  });
}

void TlsConnection::lose(const asio::error_code& error) {
  ended_by_peer_ = is_end(error);
  fail(Error(Fault::peer, "connection lost: " + error.message()));
}

void TlsConnection::fail(const Error& why) {
  if (is_closed_) return;
  shut();
  if (const Done done = std::exchange(done_, nullptr)) return done(&why);
  if (const auto closed = std::exchange(closed_, nullptr)) closed(why);
}

void TlsConnection::shut() {
  is_closed_ = true;
  deadline_.cancel();
  asio::error_code ignored;
  socket().close(ignored);
}

}  // namespace estrain::net
