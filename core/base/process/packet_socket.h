#pragma once
// Sockets between a process and its children that keep the boundaries of packets (SOCK_SEQPACKET).

#include <span>
#include <string_view>
#include <utility>

#include "core/base/files/unique_fd.h"

namespace estrain {

// Returns both ends; an exec closes them. Throws Fault::io.
std::pair<UniqueFd, UniqueFd> packet_sockets();

// Sends a packet, with descriptors beside it. `flags`: of send(2), such as MSG_DONTWAIT. False: the packet will not
// arrive. Never raises SIGPIPE.
bool send_packet(int socket, std::string_view bytes, std::span<const int> descriptors = {}, int flags = 0);

}  // namespace estrain
