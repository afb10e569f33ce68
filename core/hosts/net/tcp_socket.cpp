#include "core/hosts/net/tcp_socket.h"

#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace estrain::net {
namespace {

constexpr double kManyBytes = 128 << 10;

bool choose(int socket, std::string_view control) {
  return ::setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, control.data(), static_cast<socklen_t>(control.size())) == 0;
}

}  // namespace

void close_on_exec(int socket) { ::fcntl(socket, F_SETFD, FD_CLOEXEC); }

void avoid_bbr(int socket) {
  std::array<char, 16> name{};
  socklen_t size = name.size() - 1;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.data(), &size) != 0) return;
  if (std::string_view(name.data()).starts_with("bbr")) choose(socket, "cubic") || choose(socket, "reno");
}

std::optional<double> network_rate(int socket) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return std::nullopt;
  const double bytes = static_cast<double>(info.tcpi_unacked) * info.tcpi_snd_mss;
  if (std::max<double>(bytes, info.tcpi_notsent_bytes) < kManyBytes || info.tcpi_rtt == 0) return std::nullopt;
  return bytes / (info.tcpi_rtt * 1e-6);
}

}  // namespace estrain::net
