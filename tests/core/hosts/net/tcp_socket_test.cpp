#include "core/hosts/net/tcp_socket.h"

#include <doctest/doctest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <string>

#include "core/base/files/unique_fd.h"

namespace estrain::net {
namespace {

UniqueFd new_socket() { return UniqueFd(::socket(AF_INET, SOCK_STREAM, 0)); }

std::string control_of(const UniqueFd& socket) {
  std::array<char, 17> name{};
  socklen_t size = name.size() - 1;
  REQUIRE(::getsockopt(socket.get(), IPPROTO_TCP, TCP_CONGESTION, name.data(), &size) == 0);
  return name.data();
}

bool choose(const UniqueFd& socket, const std::string& control) {
  return ::setsockopt(socket.get(), IPPROTO_TCP, TCP_CONGESTION, control.data(), control.size()) == 0;
}

TEST_CASE("a socket gets another congestion control in place of BBR, and keeps any other") {
  const UniqueFd reno = new_socket();
  REQUIRE(choose(reno, "reno"));
  avoid_bbr(reno.get());
  CHECK(control_of(reno) == "reno");
  const UniqueFd bbr = new_socket();
  if (!choose(bbr, "bbr")) {
    MESSAGE("not tested: this system has no BBR");
    return;
  }
  avoid_bbr(bbr.get());
  const std::string chosen = control_of(bbr);
  CHECK((chosen == "cubic" || chosen == "reno"));
}

TEST_CASE("a socket that has little under way does not tell how fast its network is") {
  const UniqueFd listener = new_socket();
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  REQUIRE(::bind(listener.get(), reinterpret_cast<sockaddr*>(&at), size) == 0);
  REQUIRE(::listen(listener.get(), 1) == 0);
  REQUIRE(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&at), &size) == 0);
  const UniqueFd sender = new_socket();
  CHECK(!network_rate(sender.get()));
  REQUIRE(::connect(sender.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0);
  const std::string few(1000, 'x');
  REQUIRE(::send(sender.get(), few.data(), few.size(), 0) == 1000);
  CHECK(!network_rate(sender.get()));
}

}  // namespace
}  // namespace estrain::net
