#pragma once
// The addresses of this host.

#include <string>

#include "core/net/connection.h"

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

// Throws Fault::usage for all but an IPv4 or IPv6 address with a port, such as "10.0.0.2:7000" or "[fd00::2]:7000".
// A link-local one names an interface, which all hosts of a job then have under that name: "[fe80::2%eth0]:7000".
// Names are looked up nowhere: the text may come from another host.
void require_numeric_address(const std::string& text);

// Where to listen. `text`: "10.0.0.2", "10.0.0.2:7000", ":7000", or empty; without an address that of the interface or,
// without one, what this host's name leads to. `option`: by which the user names an address. Throws Fault::usage where
// there is none that other hosts can reach.
net::Address listening_address(const std::string& text, const std::string& interface, const std::string& option);

}  // namespace estrain::hosts
