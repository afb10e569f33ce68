#pragma once
// The congestion control of a TCP socket, and its rate. For this folder alone.

#include <optional>

namespace estrain::net {

// Closes the socket at exec: a child process that inherits the socket would keep the connection, and its port, open.
void close_on_exec(int socket);

// Replaces BBR by CUBIC, or by Reno if CUBIC is not allowed; keeps every further choice of the system. BBR holds a flow
// to the flow's recent rate. The flows of a training step begin and end together, so BBR leaves links idle
// (scripts/benchmarks/hosts/RESULTS.md).
void avoid_bbr(int socket);

// Bytes a second that the network takes from the socket: the bytes under way, divided by their round trip. Nothing if
// few bytes are under way and few wait, since the network may be faster than measured.
std::optional<double> network_rate(int socket);

}  // namespace estrain::net
