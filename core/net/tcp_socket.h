#pragma once
// TCP's own view of a socket. For this folder alone.

#include <optional>

namespace estrain::net {

// Where the system has chosen BBR for a socket, chooses CUBIC, or Reno if CUBIC is not allowed. BBR holds a flow to the
// rate that the flow has lately had. The flows of a training step begin and end together, so BBR leaves links idle
// (scripts/benchmarks/hosts/RESULTS.md). All other choices of the system stay.
void avoid_bbr(int socket);

// Bytes a second that the network takes from the socket: those under way, by the time until they are acknowledged.
// Nothing: few are under way and few wait, so the network may be faster.
std::optional<double> network_rate(int socket);

}  // namespace estrain::net
