#include "core/hosts/agents/interface.h"

#include <arpa/inet.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <charconv>
#include <memory>
#include <set>

#include "core/base/error.h"
#include "core/base/files/unique_fd.h"
#include "core/base/process/host_name.h"

namespace estrain::hosts {
namespace {

constexpr Nanoseconds kPatienceWithNames = 20s;

// Returns an empty string for a link-local address, useless to another host that does not know the link.
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

// With the interface: "fe80::1%eth0".
std::string link_local_text(const sockaddr_in6& address) {
  char number[INET6_ADDRSTRLEN] = {}, name[IF_NAMESIZE] = {};
  ::inet_ntop(AF_INET6, &address.sin6_addr, number, sizeof number);
  const char* interface = ::if_indextoname(address.sin6_scope_id, name);
  return fmt::format("{}%{}", number, interface ? interface : std::to_string(address.sin6_scope_id));
}

sockaddr_storage numeric_address(const net::Address& address) {
  sockaddr_storage at{};
  const auto no_address = [&] { return Error::make(Fault::usage, "\"{}\" is no address", address.host); };
  if (address.host.find(':') == address.host.npos) {
    auto& v4 = reinterpret_cast<sockaddr_in&>(at);
    v4.sin_family = AF_INET;
    v4.sin_port = htons(address.port);
    if (::inet_pton(AF_INET, address.host.c_str(), &v4.sin_addr) != 1) throw no_address();
    return at;
  }
  auto& v6 = reinterpret_cast<sockaddr_in6&>(at);
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(address.port);
  if (::inet_pton(AF_INET6, address.host.substr(0, address.host.find('%')).c_str(), &v6.sin6_addr) != 1)
    throw no_address();
  v6.sin6_scope_id = scope_of(address.host);
  if (IN6_IS_ADDR_LINKLOCAL(&v6.sin6_addr) && v6.sin6_scope_id == 0)
    throw Error::make(Fault::usage, "{}: an address of one link, without the interface that leads to it", address.host)
        .advise(fmt::format("add it: {}%eth0", address.host));
  return at;
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

uint32_t scope_of(const std::string& host) {
  const size_t percent = host.find('%');
  if (percent == host.npos) return 0;
  const std::string name = host.substr(percent + 1);
  uint32_t number = ::if_nametoindex(name.c_str());
  const char* end = name.data() + name.size();
  char known[IF_NAMESIZE] = {};
  if (number == 0 && (std::from_chars(name.data(), end, number).ptr != end || !::if_indextoname(number, known)))
    throw Error::make(Fault::usage, "{}: this host has no interface {}", host, name)
        .advise("behind % stands the interface by which this host reaches that address");
  return number;
}

// A connected datagram socket sends nothing, and has the address.
std::string address_toward(const net::Address& other) {
  const bool v6 = other.host.find(':') != other.host.npos;
  const UniqueFd socket(::socket(v6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket) throw system_error("cannot make a socket", errno);
  sockaddr_storage at = numeric_address(other);
  auto* generic = reinterpret_cast<sockaddr*>(&at);
  socklen_t bytes = v6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  if (::connect(socket.get(), generic, bytes) != 0)
    throw system_error(fmt::format("no way leads to {}", other.text()), errno);
  bytes = sizeof at;
  if (::getsockname(socket.get(), generic, &bytes) != 0) throw system_error("cannot ask for an own address", errno);
  const std::string text = text_of(*generic);
  return text.empty() ? link_local_text(reinterpret_cast<const sockaddr_in6&>(at)) : text;
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
    return listening_address(place, look_up_within(place.named, kPatienceWithNames), option);
  } catch (const Error& error) {
    if (error.fault() != Fault::peer) throw;
    throw Error(Fault::usage, error.message())
        .advise("name the interface, or the address, that other hosts reach: " + option);
  }
}

}  // namespace estrain::hosts
