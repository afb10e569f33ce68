// NCCL (libnccl.so.2) between simulated GPUs of one machine or of several hosts: the functions used by
// core/engine/cuda, over TCP. A group's transfers run in stream order, as far as the peers have come. They are enqueued
// a while after the group's end, as a non-blocking communicator may do. Transfers of an aborted communicator leave junk
// in their targets.
//
// An id has the address at which the process that made the id introduces the ranks to each other. NCCL_SOCKET_IFNAME
// names the network interface; without the variable the ranks meet on the loopback interface.

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <nccl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/files/unique_fd.h"
#include "tests/simulated_gpu/machine.h"

namespace {

using namespace estrain::simulated;
using estrain::UniqueFd;

constexpr useconds_t kBetweenTriesUs = 1000;
constexpr int kBetweenLooksMs = 5;
constexpr useconds_t kBeforeGroupEndsUs = 100;

in_addr address_of_interface(const std::string& name) {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) fail("the network interfaces are not known: " + std::string(std::strerror(errno)));
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> all(first, ::freeifaddrs);
  for (const ifaddrs* each = first; each != nullptr; each = each->ifa_next) {
    if (each->ifa_name == name && each->ifa_addr != nullptr && each->ifa_addr->sa_family == AF_INET)
      return reinterpret_cast<const sockaddr_in*>(each->ifa_addr)->sin_addr;
  }
  fail("NCCL_SOCKET_IFNAME: no address of " + name);
}

UniqueFd new_socket() {
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int at_once = 1;
  if (!socket || ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once) != 0)
    fail("no socket: " + std::string(std::strerror(errno)));
  return socket;
}

// A socket that listens at an address of this host.
struct Listener {
  UniqueFd socket;
  sockaddr_in address;
};

Listener listen_here() {
  const char* const interface = std::getenv("NCCL_SOCKET_IFNAME");
  Listener here{new_socket(), {}};
  here.address.sin_family = AF_INET;
  here.address.sin_addr =
      interface == nullptr ? in_addr{.s_addr = htonl(INADDR_LOOPBACK)} : address_of_interface(interface);
  socklen_t length = sizeof here.address;
  if (::bind(here.socket.get(), reinterpret_cast<const sockaddr*>(&here.address), length) != 0 ||
      ::listen(here.socket.get(), SOMAXCONN) != 0 ||
      ::getsockname(here.socket.get(), reinterpret_cast<sockaddr*>(&here.address), &length) != 0)
    fail("nobody can be met: " + std::string(std::strerror(errno)));
  return here;
}

// What a rank says to the process that made the id. The answer: the addresses of all ranks.
struct Introduction {
  int ranks, rank;
  sockaddr_in address;
};

struct Transfer {
  std::byte* memory;
  size_t bytes;
};

// The connection to one peer.
struct Exchanged {
  std::deque<Transfer> out, in;
};

// The own part of an all-gather.
struct Copy {
  void* to;
  const void* from;
  size_t bytes;
};

// The transfers of a group.
struct Transfers {
  std::vector<Exchanged> peers;
  std::vector<Copy> copies;
  cudaStream_t stream = nullptr;
};

}  // namespace

struct ncclComm {
  int rank = 0;
  std::vector<UniqueFd> sockets;
  std::mutex mutex;
  std::atomic<bool> aborted = false;
  std::atomic<bool> silent = false;
  Fault fault{"transfer"}, silence{"silence"};
  std::atomic<ncclResult_t> state = ncclInProgress;
  Transfers group;
};

namespace {

thread_local int groups_open = 0;
thread_local std::shared_ptr<ncclComm>* grouped = nullptr;

// A handle is the address of this object, since work in the stream outlives the communicator.
using Handle = std::shared_ptr<ncclComm>;
Handle& of(ncclComm_t communicator) { return *reinterpret_cast<Handle*>(communicator); }

// ESTRAIN_SIMULATED_MEETING="MS FILE": making a communicator takes this long. A process that begins adds a line to
// FILE.
void take_time(const ncclComm& communicator) {
  static const char* const given = std::getenv("ESTRAIN_SIMULATED_MEETING");
  if (given == nullptr) return;
  std::istringstream words(given);
  int64_t left = 0;
  std::string file;
  words >> left >> file;
  std::ofstream(file, std::ios::app) << ::getpid() << std::endl;
  for (; left > 0 && !communicator.aborted; --left) ::usleep(1000);
}

void await(int socket, short event) {
  pollfd awaited{.fd = socket, .events = event, .revents = 0};
  ::poll(&awaited, 1, kBetweenLooksMs);
}

// Whether all bytes have arrived. A peer that has ended is waited for until the meeting is given up.
template <typename GivenUp>
bool receive(int socket, void* to, size_t bytes, GivenUp given_up) {
  for (size_t at = 0; at < bytes;) {
    const ssize_t n = ::recv(socket, static_cast<std::byte*>(to) + at, bytes - at, 0);
    if (n > 0) {
      at += static_cast<size_t>(n);
      continue;
    }
    if (given_up()) return false;
    if (n == 0) ::usleep(kBetweenTriesUs);
    await(socket, POLLIN);
  }
  return true;
}

// The words are few, and fit the socket of a new connection.
void say(int socket, const void* words, size_t bytes) {
  (void)::send(socket, words, bytes, MSG_NOSIGNAL);  // a peer that has ended does not hear
}

// Introduces all ranks to each other, once each has said where it is met. In a thread of its own, which waits for the
// ranks as long as the process lives.
void introduce(UniqueFd listener) {
  std::vector<UniqueFd> sockets;
  std::vector<sockaddr_in> addresses;
  for (size_t met = 0; met == 0 || met < sockets.size();) {
    await(listener.get(), POLLIN);
    UniqueFd socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    Introduction said{};
    if (!socket || !receive(socket.get(), &said, sizeof said, [] { return false; })) continue;
    sockets.resize(static_cast<size_t>(said.ranks));
    addresses.resize(sockets.size());
    addresses[static_cast<size_t>(said.rank)] = said.address;
    sockets[static_cast<size_t>(said.rank)] = std::move(socket);
    ++met;
  }
  for (const UniqueFd& socket : sockets) say(socket.get(), addresses.data(), addresses.size() * sizeof(sockaddr_in));
}

// Tries until the communicator is aborted.
UniqueFd connected_to(const sockaddr_in& address, const ncclComm& communicator) {
  while (!communicator.aborted) {
    UniqueFd socket = new_socket();
    int error = ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ? 0 : errno;
    while (error == EINPROGRESS && !communicator.aborted) {
      await(socket.get(), POLLOUT);
      sockaddr_in peer{};
      socklen_t length = sizeof error, peer_length = sizeof peer;
      ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
      if (error == 0 && ::getpeername(socket.get(), reinterpret_cast<sockaddr*>(&peer), &peer_length) != 0)
        error = EINPROGRESS;
    }
    if (error == 0) return socket;
    ::usleep(kBetweenTriesUs);
  }
  return {};
}

// Connects to the lower ranks and accepts connections from the higher ranks.
void meet(const Handle& communicator, const ncclUniqueId& id) {
  take_time(*communicator);
  const auto given_up = [&communicator] { return communicator->aborted.load(); };
  const int rank = communicator->rank, ranks = static_cast<int>(communicator->sockets.size());
  const Listener own = listen_here();
  sockaddr_in root{};
  std::memcpy(&root, id.internal, sizeof root);
  const UniqueFd introducer = connected_to(root, *communicator);
  if (!introducer) return;
  const Introduction introduction{ranks, rank, own.address};
  say(introducer.get(), &introduction, sizeof introduction);
  std::vector<sockaddr_in> addresses(static_cast<size_t>(ranks));
  if (!receive(introducer.get(), addresses.data(), addresses.size() * sizeof(sockaddr_in), given_up)) return;
  for (int peer = 0; peer < rank; ++peer) {
    UniqueFd socket = connected_to(addresses[static_cast<size_t>(peer)], *communicator);
    if (!socket) return;
    say(socket.get(), &rank, sizeof rank);
    communicator->sockets[static_cast<size_t>(peer)] = std::move(socket);
  }
  for (int left = ranks - rank - 1; left > 0;) {
    if (given_up()) return;
    await(own.socket.get(), POLLIN);
    UniqueFd socket(::accept4(own.socket.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    int who = 0;
    if (!socket) continue;
    if (!receive(socket.get(), &who, sizeof who, given_up)) return;
    communicator->sockets[static_cast<size_t>(who)] = std::move(socket);
    --left;
  }
  communicator->state = ncclSuccess;
}

// Transfers as much as possible without waiting.
template <typename Call>
void move(std::deque<Transfer>& transfers, Call call) {
  while (!transfers.empty()) {
    Transfer& next = transfers.front();
    const ssize_t n = call(next.memory, next.bytes);
    if (n <= 0) return;
    next.memory += n;
    next.bytes -= static_cast<size_t>(n);
    if (next.bytes == 0) transfers.pop_front();
  }
}

// Whether nothing is left. If a peer has ended, something is left until the communicator is aborted.
bool carry_out(const ncclComm& communicator, Transfers& transfers) {
  if (communicator.aborted) {
    for (const Exchanged& peer : transfers.peers) {
      for (const Transfer& receive : peer.in) std::memset(receive.memory, kJunk, receive.bytes);
    }
    return true;
  }
  if (communicator.state != ncclSuccess || communicator.silent) return false;
  for (const Copy& copy : transfers.copies) std::memmove(copy.to, copy.from, copy.bytes);
  transfers.copies.clear();
  bool is_through = true;
  for (size_t rank = 0; rank < transfers.peers.size(); ++rank) {
    Exchanged& peer = transfers.peers[rank];
    const int socket = communicator.sockets[rank].get();
    move(peer.out, [socket](void* from, size_t n) { return ::send(socket, from, n, MSG_NOSIGNAL); });
    move(peer.in, [socket](void* to, size_t n) { return ::recv(socket, to, n, 0); });
    is_through &= peer.out.empty() && peer.in.empty();
  }
  return is_through;
}

// The group under way, for one more call.
Transfers& open_group(ncclComm_t communicator, cudaStream_t stream) {
  if (groups_open == 0) fail("a transfer outside of a group");
  ncclComm& comm = *of(communicator);
  if (comm.state != ncclSuccess) fail("a transfer before all have met");
  comm.group.peers.resize(comm.sockets.size());
  comm.group.stream = stream;
  grouped = &of(communicator);
  return comm.group;
}

ncclResult_t add(ncclComm_t communicator, int peer, cudaStream_t stream, std::deque<Transfer> Exchanged::*which,
                 const void* memory, size_t bytes) {
  count(Call::transfer);
  (open_group(communicator, stream).peers[static_cast<size_t>(peer)].*which)
      .push_back({static_cast<std::byte*>(const_cast<void*>(memory)), bytes});
  return ncclSuccess;
}

}  // namespace

extern "C" {

const char* ncclGetErrorString(ncclResult_t error) {
  return error == ncclRemoteError ? "remote process exited or there was a network error" : "an error";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  Listener here = listen_here();
  *id = {};
  static_assert(sizeof here.address <= sizeof id->internal);
  std::memcpy(id->internal, &here.address, sizeof here.address);
  std::thread(introduce, std::move(here.socket)).detach();
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* communicator, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (config == nullptr || config->blocking != 0) fail("only communicators that do not block are simulated");
  auto* const handle = new Handle(std::make_shared<ncclComm>());
  (*handle)->rank = rank;
  (*handle)->sockets.resize(static_cast<size_t>(ranks));
  std::thread([meets = *handle, id] { meet(meets, id); }).detach();
  *communicator = reinterpret_cast<ncclComm_t>(handle);
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t* state) {
  *state = of(communicator)->state;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t communicator) {
  {
    const std::lock_guard lock(of(communicator)->mutex);
    of(communicator)->aborted = true;  // transfers not yet in the stream never will be
  }
  delete &of(communicator);
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++groups_open;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (--groups_open > 0 || grouped == nullptr) return ncclSuccess;
  const Handle communicator = *std::exchange(grouped, nullptr);
  count(Call::group);
  if (communicator->fault.strikes()) communicator->state = ncclRemoteError;
  if (communicator->silence.strikes()) communicator->silent = true;
  auto transfers = std::make_shared<Transfers>(std::exchange(communicator->group, {}));
  ncclResult_t expected = ncclSuccess;
  communicator->state.compare_exchange_strong(expected, ncclInProgress);
  std::thread([communicator, transfers] {
    ::usleep(kBeforeGroupEndsUs);
    const std::lock_guard lock(communicator->mutex);
    if (communicator->aborted) return;
    Machine& machine = Machine::of_process();
    machine.attempt(machine.stream(transfers->stream),
                    [communicator, transfers] { return carry_out(*communicator, *transfers); });
    ncclResult_t under_way = ncclInProgress;
    communicator->state.compare_exchange_strong(under_way, ncclSuccess);
  }).detach();
  return ncclInProgress;
}

ncclResult_t ncclSend(const void* memory, size_t count, ncclDataType_t type, int peer, ncclComm_t communicator,
                      cudaStream_t stream) {
  if (type != ncclUint8) fail("only bytes are transferred");
  return add(communicator, peer, stream, &Exchanged::out, memory, count);
}
ncclResult_t ncclRecv(void* memory, size_t count, ncclDataType_t type, int peer, ncclComm_t communicator,
                      cudaStream_t stream) {
  if (type != ncclUint8) fail("only bytes are transferred");
  return add(communicator, peer, stream, &Exchanged::in, memory, count);
}

ncclResult_t ncclAllGather(const void* from, void* to, size_t count, ncclDataType_t type, ncclComm_t communicator,
                           cudaStream_t stream) {
  if (type != ncclUint8) fail("only bytes are transferred");
  estrain::simulated::count(Call::gather);
  Transfers& group = open_group(communicator, stream);
  auto* const parts = static_cast<std::byte*>(to);
  const auto own = static_cast<size_t>(of(communicator)->rank);
  for (size_t peer = 0; peer < group.peers.size(); ++peer) {
    if (peer == own) continue;
    group.peers[peer].out.push_back({static_cast<std::byte*>(const_cast<void*>(from)), count});
    group.peers[peer].in.push_back({parts + peer * count, count});
  }
  group.copies.push_back({parts + own * count, from, count});
  return ncclSuccess;
}

}  // extern "C"
