#include "core/hosts/agents/interface.h"

#include <arpa/inet.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <memory>
#include <set>

#include "core/base/error.h"
#include "core/base/files/unique_fd.h"
#include "core/base/process/host_name.h"

namespace estrain::hosts {
namespace {

constexpr int kPatienceWithNamesMs = 20'000;

std::string text_of(const sockaddr& address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address.sa_family == AF_INET) {
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(address).sin_addr, text, sizeof text);
  } else if (address.sa_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    if (!IN6_IS_ADDR_LINKLOCAL(&v6.sin6_addr)) ::inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text);
  }
  return text;
}

}  // namespace

std::string address_of_interface(const std::string& name) {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) throw system_error("cannot list the network interfaces", errno);
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> list(first, ::freeifaddrs);
  std::string v6;
  std::set<std::string> names;
  for (const ifaddrs* at = first; at != nullptr; at = at->ifa_next) {
    std::string address = at->ifa_addr == nullptr ? "" : text_of(*at->ifa_addr);
    if (address.empty()) continue;
    names.insert(at->ifa_name);
    if (name != at->ifa_name) continue;
    if (at->ifa_addr->sa_family == AF_INET) return address;
    v6 = address;
  }
  if (!v6.empty()) return v6;
  throw Error::make(Fault::usage, "this host has no network interface {} with an address", name)
      .advise(fmt::format("name one of {}", fmt::join(names, ", ")));
}

// A datagram socket that is connected sends nothing, and has the address.
std::string address_toward(const net::Address& other) {
  const bool v6 = other.host.find(':') != other.host.npos;
  const UniqueFd socket(::socket(v6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket) throw system_error("cannot make a socket", errno);
  sockaddr_storage at{};
  socklen_t bytes = v6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  at.ss_family = v6 ? AF_INET6 : AF_INET;
  void* number = v6 ? static_cast<void*>(&reinterpret_cast<sockaddr_in6&>(at).sin6_addr)
                    : static_cast<void*>(&reinterpret_cast<sockaddr_in&>(at).sin_addr);
  (v6 ? reinterpret_cast<sockaddr_in6&>(at).sin6_port : reinterpret_cast<sockaddr_in&>(at).sin_port) =
      htons(other.port);
  if (::inet_pton(at.ss_family, other.host.c_str(), number) != 1)
    throw Error::make(Fault::usage, "\"{}\" is no address", other.host);
  auto* generic = reinterpret_cast<sockaddr*>(&at);
  if (::connect(socket.get(), generic, bytes) != 0)
    throw system_error(fmt::format("no way leads to {}", other.text()), errno);
  bytes = sizeof at;
  if (::getsockname(socket.get(), generic, &bytes) != 0) throw system_error("cannot ask for an own address", errno);
  return text_of(*generic);
}

ListeningPlace place_to_listen(const std::string& text, const std::string& interface) {
  const size_t colon = text.find(':');
  const bool has_port = colon != text.npos && (colon == text.rfind(':') || text.starts_with('['));
  const std::string port = has_port ? text.substr(text.rfind(':')) : ":0";
  std::string host = has_port ? text.substr(0, text.rfind(':')) : text;
  const bool is_own_name = host.empty() && interface.empty();
  if (host.empty()) host = interface.empty() ? host_name() : address_of_interface(interface);
  const bool bare_v6 = host.find(':') != host.npos && !host.starts_with('[');
  return {net::split_address((bare_v6 ? "[" + host + "]" : host) + port), is_own_name};
}

net::Address listening_address(const ListeningPlace& place, const std::vector<net::Address>& found,
                               const std::string& option) {
  if (place.is_own_name && found.front().host.starts_with("127."))
    throw Error::make(Fault::usage, "this host's name, {}, leads to {}, which other hosts cannot reach",
                      place.named.host, found.front().host)
        .advise("name the interface, or the address, that they reach: " + option);
  return found.front();
}

net::Address listening_address(const std::string& text, const std::string& interface, const std::string& option) {
  const ListeningPlace place = place_to_listen(text, interface);
  try {
    return listening_address(place, look_up_within(place.named, kPatienceWithNamesMs), option);
  } catch (const Error& error) {
    if (error.fault() != Fault::peer) throw;
    throw Error(Fault::usage, error.message())
        .advise("name the interface, or the address, that other hosts reach: " + option);
  }
}

}  // namespace estrain::hosts
