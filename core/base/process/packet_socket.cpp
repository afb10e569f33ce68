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

}  // namespace estrain
