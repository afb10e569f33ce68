#pragma once
// The congestion control of a TCP socket, and its rate. For this folder alone.

#include <optional>

namespace estrain::net {

// No process that this one starts inherits the socket: it would keep the connection open, and its port.
void close_on_exec(int socket);

// Replaces BBR by CUBIC, or by Reno if CUBIC is not allowed; any other choice of the system stays. BBR holds a flow to
// the rate that it had lately. The flows of a training step begin and end together, so BBR leaves links idle
// (scripts/benchmarks/hosts/RESULTS.md).
void avoid_bbr(int socket);

// Bytes a second that the network takes from the socket: the bytes under way, divided by their round trip. Nothing if
// few bytes are under way and few wait, since the network may be faster then.
std::optional<double> network_rate(int socket);

}  // namespace estrain::net
