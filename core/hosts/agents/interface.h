#pragma once
// The addresses of this host.

#include <string>
#include <vector>

#include "core/hosts/agents/names.h"

namespace estrain::hosts {

// Its IPv4 address, or else an IPv6 one that is not link-local, as text ("10.0.0.2"). Throws Fault::usage naming the
// interfaces that there are where it has none.
std::string address_of_interface(const std::string& name);

// The number of the interface behind the % of a link-local address ("fe80::1%eth0", "fe80::1%2"); 0 without one. Throws
// Fault::usage where this host has no such interface.
uint32_t scope_of(const std::string& host);

// The one by which packets leave this host for that address; a link-local one has its interface: "fe80::2%eth0". Throws
// Fault::io where none does.
std::string address_toward(const net::Address& other);

// Where to listen. `text`: "10.0.0.2", "10.0.0.2:7000", "nodeA:7000", ":7000", or empty; without a host the address of
// the interface or, without one, this host's name. Throws Fault::usage.
struct ListeningPlace {
  net::Address named;  // its host may be a name
  bool is_own_name = false;
};
ListeningPlace place_to_listen(const std::string& text, const std::string& interface);
// `found`: what the name leads to. `option`: by which the user names an address. Throws Fault::usage where other hosts
// cannot reach it.
net::Address listening_address(const ListeningPlace& place, const std::vector<net::Address>& found,
                               const std::string& option);
// Both, and looks the name up in between: not for a loop. Throws Fault::usage where it leads nowhere, too.
net::Address listening_address(const std::string& text, const std::string& interface, const std::string& option);

}  // namespace estrain::hosts
