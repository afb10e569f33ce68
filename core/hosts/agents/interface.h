#pragma once
// The address of a network interface of this host.

#include <string>

namespace estrain::hosts {

// Its IPv4 address, or else an IPv6 one that is not link-local, as text ("10.0.0.2"). Throws Fault::usage naming the
// interfaces that there are where it has none.
std::string address_of_interface(const std::string& name);

}  // namespace estrain::hosts
