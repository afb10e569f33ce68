#pragma once
// TCP's congestion control. For this folder alone.

namespace estrain::net {

// Where the system has chosen BBR for a socket, chooses CUBIC, or Reno if CUBIC is not allowed. BBR holds a flow to the
// rate that the flow has lately had. The flows of a training step begin and end together, so BBR leaves links idle
// ([figures](../../scripts/benchmarks/hosts/RESULTS.md)). All other choices of the system stay.
void avoid_bbr(int socket);

}  // namespace estrain::net
