#include "core/comm/message_socket.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <vector>

namespace estrain::comm {
namespace {

constexpr size_t kLargestMessage = 128 * 1024;

}  // namespace

std::pair<MessageSocket, MessageSocket> MessageSocket::pair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    throw system_error("cannot create a socket", errno);
  return {MessageSocket(UniqueFd(ends[0])), MessageSocket(UniqueFd(ends[1]))};
}

bool MessageSocket::send(const Json& message) {
  const std::string text = message.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > kLargestMessage) throw Error::make(Fault::bug, "message of {} bytes", text.size());
  for (;;) {
    const ssize_t sent = ::send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL);
    if (sent >= 0) return true;
    if (errno != EINTR) return false;
  }
}

MessageSocket::Received MessageSocket::receive(Json* message, int milliseconds) {
  pollfd waiting{fd_.get(), POLLIN, 0};
  if (::poll(&waiting, 1, milliseconds) <= 0) return Received::nothing;
  std::vector<char> buffer(kLargestMessage);
  const ssize_t got = ::recv(fd_.get(), buffer.data(), buffer.size(), 0);
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return Received::nothing;
  if (got <= 0) return Received::closed;
  *message = parse_json({buffer.data(), static_cast<size_t>(got)}, "message of a process of this run");
  return Received::message;
}

}  // namespace estrain::comm
