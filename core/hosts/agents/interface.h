#pragma once
// The addresses of this host.

#include <string>
#include <vector>

#include "core/hosts/agents/names.h"

namespace estrain::hosts {

// Returns the interface's IPv4 address, or else an IPv6 address that is not link-local, as text ("10.0.0.2"). Throws
// Fault::usage, with the names of all interfaces, if the interface has no address.
std::string address_of_interface(const std::string& name);

// Returns the number of the interface behind the % of a link-local address ("fe80::1%eth0", "fe80::1%2"), or 0 without
// an interface. Throws Fault::usage if this host has no such interface.
uint32_t scope_of(const std::string& host);

// Returns the own address from which packets leave this host for `other`. A link-local address has its interface:
// "fe80::2%eth0". Throws Fault::io if no address leads to `other`.
std::string address_toward(const net::Address& other);

// Where to listen. `text`: "10.0.0.2", "10.0.0.2:7000", "nodeA:7000", ":7000", or empty. Without a host in `text`, the
// address of the interface or, without an interface, this host's name. Throws Fault::usage.
struct ListeningPlace {
  net::Address named;  // the host may be a name
  bool is_own_name = false;
};
ListeningPlace place_to_listen(const std::string& text, const std::string& interface);
// `found`: the addresses of the name. `option`: the option by which the user gives an address. Throws Fault::usage if
// other hosts cannot reach the address.
net::Address listening_address(const ListeningPlace& place, const std::vector<net::Address>& found,
                               const std::string& option);
// Does both, and looks up the name in between: not for a loop. Throws Fault::usage, also for an unknown name.
net::Address listening_address(const std::string& text, const std::string& interface, const std::string& option);

}  // namespace estrain::hosts
