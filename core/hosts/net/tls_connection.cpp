#include "core/hosts/net/tls_connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <utility>

#include "core/hosts/net/tcp_socket.h"
#include "core/hosts/net/tls.h"

namespace estrain::net {
namespace {

using asio::ip::tcp;

constexpr uint32_t kGreetingKind = 1;
constexpr size_t kBytesOfTurn = 256 << 10;       // then other connections have their turn
constexpr unsigned kSilenceMilliseconds = 1500;  // of sent data without acknowledgement

// The system does not try idle connections (SO_KEEPALIVE): with a limit of silence, one lost try would end a connection
// that works.
void set_options(tcp::socket& socket) {
  asio::error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  const unsigned silence = kSilenceMilliseconds;
  ::setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_USER_TIMEOUT, &silence, sizeof silence);
  avoid_bbr(socket.native_handle());
}

bool is_end(const asio::error_code& error) {
  return error == asio::error::eof || error == asio::error::connection_reset || error == asio::error::broken_pipe ||
         error == asio::ssl::error::stream_truncated;
}

constexpr size_t kMostBytesAtATime = 256 << 10;
constexpr size_t kLeastSealed = 4 << 10;  // smaller payloads go by TLS, many frames in one system call
constexpr size_t kLeastPacked = 16 << 10;
// Bytes a second. Coding and decoding a byte take 0.8 ns of a core, as long as a network of this rate takes for 1/6.
constexpr double kSlowNetwork = 200e6;

std::string text_of(const FrameHead& head) {
  const EncodedHead encoded = encode(head);
  return {reinterpret_cast<const char*>(encoded.data()), encoded.size()};
}

}  // namespace

Address address_of(const tcp::endpoint& endpoint) { return {endpoint.address().to_string(), endpoint.port()}; }

TlsConnection::TlsConnection(Loop& loop, tcp::socket socket, std::shared_ptr<asio::ssl::context> context, Greeting own)
    : stream_(std::move(socket), std::move(context)), deadline_(loop.engine().context), own_(std::move(own)) {}

template <typename Act>
void TlsConnection::guarded(Act&& act) {
  try {
    act();
  } catch (const Error& error) {
    if (error.fault() == Fault::bug) throw;
    fail(error);
  }
}

void TlsConnection::post(void (TlsConnection::*act)()) {
  asio::post(socket().get_executor(), [self = shared_from_this(), act] { ((*self).*act)(); });
}

void TlsConnection::open(asio::ssl::stream_base::handshake_type side, Nanoseconds patience, Done done) {
  done_ = std::move(done);
  side_ = side;
  if (is_client()) stream_.identity() = identity_of(stream_.context(), {own_.run, own_.host, own_.to});
  set_options(socket());
  asio::error_code ignored;
  peer_address_ = address_of(socket().remote_endpoint(ignored)).text();
  deadline_.expires_after(patience);
  deadline_.async_wait([self = shared_from_this()](asio::error_code error) {
    if (!error && self->done_) self->fail(Error(Fault::peer, "no greeting in time"));
  });
  post(&TlsConnection::shake_hands);
}

void TlsConnection::shake_hands() {
  if (is_closed_) return;
  const asio::error_code error = stream_.shake_hands(side_);
  if (error == asio::error::would_block)
    return stream_.wait_to_read([self = shared_from_this()](asio::error_code) { self->shake_hands(); });
  const bool refused = error.category() == asio::error::get_ssl_category();  // by the peer, or for the peer's words
  if (error) return fail(Error(refused ? Fault::mismatch : Fault::peer, "no TLS by the run's key: " + error.message()));
  if (!stream_.has_proof()) return fail(Error(Fault::mismatch, "the peer does not have the run's key"));
  const std::string text = own_.to_json();
  send({.kind = kGreetingKind, .bytes = static_cast<uint32_t>(text.size())}, text);
  decoder_.emplace(hello_);
  is_reading_ = true;
  post(&TlsConnection::read);  // after writing the own greeting: a refused peer learns the reason from the greeting
}

std::optional<std::span<std::byte>> TlsConnection::Hello::room_for(const FrameHead& head) {
  if (head.kind != kGreetingKind || head.bytes > most_greeting_bytes)
    throw Error(Fault::corrupt, "something else than a greeting");
  text.resize(head.bytes);
  return std::as_writable_bytes(std::span(text));
}

// Compares the words of the greeting with the words proved by the handshake.
void TlsConnection::require_right_end() {
  if (is_client()) return require_is_whom_we_want(own_, peer_);
  require_is_for_us(own_, peer_);
  if (stream_.identity() != identity_of(stream_.context(), {peer_.run, peer_.host, peer_.to}))
    throw Error(Fault::corrupt, "a greeting with other names than those of its handshake");
}

// The connecting side says whether payloads go in clear.
void TlsConnection::take_greeting() {
  decoder_.reset();
  peer_ = Greeting::from_json(hello_.text);
  require_same_program(own_, peer_);
  require_right_end();
  deadline_.cancel();
  if (is_client() ? own_.clear : peer_.clear) outflow_.allow_clear();
  if (const Done done = std::exchange(done_, nullptr)) done(nullptr);
}

void TlsConnection::start(FrameSink& sink, std::function<void(const Error& why)> closed) {
  closed_ = std::move(closed);
  decoder_.emplace(sink);
  if (is_closed_ || std::exchange(is_reading_, true)) return;
  post(&TlsConnection::read);
}

void TlsConnection::retry() {
  if (!decoder_ || is_closed_) return;
  guarded([&] { decoder_->retry(); });
  if (is_closed_ || std::exchange(is_reading_, true)) return;
  post(&TlsConnection::read);
}

void TlsConnection::send(const FrameHead& head, std::string payload) {
  if (is_closed_) return;
  outflow_.add(head, payload);
  if (!std::exchange(is_writing_, true)) post(&TlsConnection::write);
}

void TlsConnection::send_from(const FrameHead& head, std::span<const std::byte> payload) {
  if (is_closed_) return;
  outflow_.add_from(head, payload);
  if (!std::exchange(is_writing_, true)) post(&TlsConnection::write);
}

void TlsConnection::close() {
  done_ = nullptr;
  closed_ = nullptr;
  shut();
}

void TlsConnection::read() {
  guarded([&] {
    for (size_t turn = 0; turn < kBytesOfTurn;) {
      const size_t bytes = read_some();
      if (bytes == 0) return;
      turn += bytes;
    }
    post(&TlsConnection::read);
  });
}

// Returns how many bytes came; 0: no more now.
size_t TlsConnection::read_some() {
  if (is_closed_) return 0;
  const std::span<std::byte> room = decoder_ ? decoder_->room() : std::span<std::byte>();
  if (room.empty()) {
    is_reading_ = false;
    return 0;
  }
  size_t bytes = 0;
  const Way way = decoder_->way();
  if (way == Way::clear && !outflow_.may_be_clear())
    throw Error(Fault::corrupt, "a payload in clear, which was not agreed on");
  const asio::error_code error = stream_.read(room.first(std::min(room.size(), kBytesOfTurn)), way, bytes);
  if (error == asio::error::would_block) {
    stream_.wait_to_read([self = shared_from_this()](asio::error_code) { self->read(); });
    return 0;
  }
  if (error) {
    lose(error);
    return 0;
  }
  decoder_->advance(bytes);
  if (!is_closed_ && done_ && hello_.complete) take_greeting();
  return bytes;
}

void TlsConnection::write() {
  if (is_closed_) return;
  const asio::error_code error = outflow_.send_to(stream_);
  if (error == asio::error::would_block)
    return stream_.wait_to_write([self = shared_from_this()](asio::error_code) { self->write(); });
  if (error == asio::error::interrupted) return post(&TlsConnection::write);
  is_writing_ = false;
  if (error) lose(error);
}

void TlsConnection::lose(const asio::error_code& error) {
  ended_by_peer_ = is_end(error);
  fail(Error(Fault::peer, (done_ ? "no greeting: " : "connection lost: ") + error.message()));
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

// Packs the first item, of which nothing has been sent. `codes`: as for FloatPacker::pack().
void Outflow::pack_first(bool codes) {
  Item& first = queue_.front();
  first.may_be_packed = false;
  if (!packer_) packer_.emplace();
  const std::span<const std::byte> packed = packer_->pack(first.lies, codes);
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
    if (queue_.front().may_be_packed && sent_ == 0)
      pack_first(network_rate(stream.descriptor()).value_or(kSlowNetwork) < kSlowNetwork);
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
    packer_.reset();
  }
  return stream.flush();
}

}  // namespace estrain::net
