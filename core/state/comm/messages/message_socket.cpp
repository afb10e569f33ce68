#include "core/state/comm/messages/message_socket.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <memory>

#include "core/base/clock.h"
#include "core/base/process/packet_socket.h"

namespace estrain::comm {
namespace {

constexpr size_t kLargestMessage = 128 * 1024;
constexpr size_t kMostKept = 256 * 1024;

}  // namespace

std::pair<MessageSocket, MessageSocket> MessageSocket::pair() {
  auto [one, other] = packet_sockets();
  return {MessageSocket(std::move(one)), MessageSocket(std::move(other))};
}

MessageSocket::Sent MessageSocket::send_at_once(const std::string& text) const {
  for (;;) {
    if (::send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return Sent::yes;
    if (errno == EAGAIN || errno == ENOBUFS) return Sent::full;
    if (errno != EINTR) return Sent::never;
  }
}

bool MessageSocket::flush_locked() {
  while (!outbox_->kept.empty()) {
    const Sent sent = send_at_once(outbox_->kept.front());
    if (sent == Sent::full) return false;
    outbox_->bytes -= outbox_->kept.front().size();
    outbox_->kept.pop_front();
  }
  return true;
}

bool MessageSocket::flush() {
  if (!outbox_) return true;
  const std::lock_guard lock(outbox_->mutex);
  return flush_locked();
}

size_t MessageSocket::bytes_kept() const {
  if (!outbox_) return 0;
  const std::lock_guard lock(outbox_->mutex);
  return outbox_->bytes;
}

bool MessageSocket::send(const Json& message) {
  if (!outbox_) return false;
  std::string text = message.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > kLargestMessage) throw Error::make(Fault::bug, "message of {} bytes", text.size());
  const std::lock_guard lock(outbox_->mutex);
  if (flush_locked()) {
    const Sent sent = send_at_once(text);
    if (sent != Sent::full) return sent == Sent::yes;
  }
  if (outbox_->bytes + text.size() > kMostKept) return false;
  outbox_->bytes += text.size();
  outbox_->kept.push_back(std::move(text));
  return true;
}

MessageSocket::Received MessageSocket::receive(Json* message, std::chrono::milliseconds limit) {
  const MonotonicTime deadline = MonotonicClock::now() + limit;
  pollfd waiting{fd_.get(), 0, 0};
  std::chrono::milliseconds left = limit;
  do {  // woken by room for kept messages, the loop waits on
    waiting.events = static_cast<short>(flush() ? POLLIN : POLLIN | POLLOUT);
    if (poll_within({&waiting, 1}, left) == 0) return Received::nothing;
    if (limit > 0ms) left = left_until(deadline);
  } while (waiting.revents == POLLOUT);
  const auto buffer = std::make_unique_for_overwrite<char[]>(kLargestMessage);  // zeros would take longer than recv()
  const ssize_t got = ::recv(fd_.get(), buffer.get(), kLargestMessage, MSG_DONTWAIT);
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return Received::nothing;
  if (got <= 0) return Received::closed;
  *message = parse_json({buffer.get(), static_cast<size_t>(got)}, "message of a process of this run");
  return Received::message;
}

}  // namespace estrain::comm
