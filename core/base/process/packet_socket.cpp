#include "core/base/process/packet_socket.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "core/base/error.h"

namespace estrain {

std::pair<UniqueFd, UniqueFd> packet_sockets() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    throw system_error("cannot create a socket", errno);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

bool send_packet(int socket, std::string_view bytes, std::span<const int> descriptors, int flags) {
  iovec part{const_cast<char*>(bytes.data()), bytes.size()};
  std::vector<char> control(descriptors.empty() ? 0 : CMSG_SPACE(descriptors.size_bytes()));
  msghdr head{};
  head.msg_iov = &part;
  head.msg_iovlen = 1;
  if (!descriptors.empty()) {
    head.msg_control = control.data();
    head.msg_controllen = control.size();
    cmsghdr* rights = CMSG_FIRSTHDR(&head);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size_bytes());
  }
  ssize_t sent = 0;
  while ((sent = ::sendmsg(socket, &head, MSG_NOSIGNAL | flags)) < 0 && errno == EINTR) {
  }
  return sent >= 0;
}

std::optional<Packet> receive_packet(int socket, size_t most_bytes, size_t most_descriptors) {
  Packet packet;
  packet.bytes.resize(most_bytes);
  std::vector<char> control(CMSG_SPACE(most_descriptors * sizeof(int)));
  iovec part{packet.bytes.data(), packet.bytes.size()};
  msghdr head{};
  head.msg_iov = &part;
  head.msg_iovlen = 1;
  head.msg_control = control.data();
  head.msg_controllen = control.size();
  ssize_t got = 0;
  while ((got = ::recvmsg(socket, &head, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR) {
  }
  if (got <= 0) return std::nullopt;
  packet.bytes.resize(static_cast<size_t>(got));
  for (cmsghdr* rights = CMSG_FIRSTHDR(&head); rights != nullptr; rights = CMSG_NXTHDR(&head, rights)) {
    std::vector<int> numbers((rights->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    std::memcpy(numbers.data(), CMSG_DATA(rights), numbers.size() * sizeof(int));
    for (const int fd : numbers) packet.descriptors.emplace_back(fd);
  }
  return packet;
}

}  // namespace estrain
