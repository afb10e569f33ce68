#pragma once
// Sockets between a process and its children that keep the boundaries of packets (SOCK_SEQPACKET).

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/files/unique_fd.h"

namespace estrain {

// Returns both ends; an exec closes them. Throws Fault::io.
std::pair<UniqueFd, UniqueFd> packet_sockets();

// Sends a packet, with descriptors beside it. `flags`: of send(2), such as MSG_DONTWAIT. False: the packet will not
// arrive. Never raises SIGPIPE.
bool send_packet(int socket, std::string_view bytes, std::span<const int> descriptors = {}, int flags = 0);

struct Packet {
  std::string bytes;
  std::vector<UniqueFd> descriptors;  // an exec closes them
};
// Waits for a packet of at most `most_bytes` and `most_descriptors`. Nothing: the other end is closed.
std::optional<Packet> receive_packet(int socket, size_t most_bytes, size_t most_descriptors);

}  // namespace estrain
