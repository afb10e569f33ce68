#include "core/net/congestion.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <string_view>

namespace estrain::net {
namespace {

bool choose(int socket, std::string_view control) {
  return ::setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, control.data(), static_cast<socklen_t>(control.size())) == 0;
}

}  // namespace

void avoid_bbr(int socket) {
  std::array<char, 16> name{};
  socklen_t size = name.size() - 1;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.data(), &size) != 0) return;
  if (std::string_view(name.data()).starts_with("bbr")) choose(socket, "cubic") || choose(socket, "reno");
}

}  // namespace estrain::net
