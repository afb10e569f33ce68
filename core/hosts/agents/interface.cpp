#include "core/hosts/agents/interface.h"

#include <arpa/inet.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include <cerrno>
#include <memory>
#include <set>

#include "core/base/error.h"

namespace estrain::hosts {
namespace {

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
    const std::string address = at->ifa_addr == nullptr ? "" : text_of(*at->ifa_addr);
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

}  // namespace estrain::hosts
