// NCCL (libnccl.so.2) between simulated GPUs of one machine: the functions used by core/engine/cuda, over sockets. A
// group's transfers run in stream order, as far as the peers have come. They are enqueued a while after the group's
// end, as a non-blocking communicator may do. Transfers of an aborted communicator leave junk in their targets.

#include <fcntl.h>
#include <nccl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <utility>

#include "core/base/files/unique_fd.h"
#include "tests/simulated_gpu/machine.h"

namespace {

using namespace estrain::simulated;
using estrain::UniqueFd;

constexpr useconds_t kBetweenTriesUs = 1000;
constexpr useconds_t kBeforeGroupEndsUs = 100;

// The address of a rank, in the abstract namespace, without a file.
sockaddr_un address_of(const ncclUniqueId& id, int rank, socklen_t* length) {
  uint64_t key = 0;
  std::memcpy(&key, id.internal, sizeof key);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  const int written = std::snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "estrain-%016llx-%d",
                                    static_cast<unsigned long long>(key), rank);
  *length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<size_t>(written));
  return address;
}

UniqueFd new_socket() { return UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); }

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

// Connects to the lower ranks and accepts connections from the higher ranks.
void meet(const Handle& communicator, const ncclUniqueId& id) {
  take_time(*communicator);
  if (communicator->aborted) return;
  const int rank = communicator->rank, ranks = static_cast<int>(communicator->sockets.size());
  socklen_t length = 0;
  const UniqueFd listener = new_socket();
  const sockaddr_un own = address_of(id, rank, &length);
  if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&own), length) != 0 ||
      ::listen(listener.get(), ranks) != 0)
    fail("nobody can be met: " + std::string(std::strerror(errno)));
  for (int peer = 0; peer < rank; ++peer) {
    const sockaddr_un address = address_of(id, peer, &length);
    UniqueFd socket = new_socket();
    while (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) {
      if (communicator->aborted) return;
      ::usleep(kBetweenTriesUs);
    }
    if (::send(socket.get(), &rank, sizeof rank, MSG_NOSIGNAL) != sizeof rank)
      fail("a peer cannot be told who this is");
    communicator->sockets[static_cast<size_t>(peer)] = std::move(socket);
  }
  for (int left = ranks - rank - 1; left > 0;) {
    if (communicator->aborted) return;
    UniqueFd socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket) {
      ::usleep(kBetweenTriesUs);
      continue;
    }
    int who = 0;
    if (::recv(socket.get(), &who, sizeof who, MSG_WAITALL) != sizeof who ||
        ::fcntl(socket.get(), F_SETFL, O_NONBLOCK) != 0)
      fail("a peer does not say who it is");
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
  *id = {};
  return ::getrandom(id->internal, sizeof(uint64_t), 0) == sizeof(uint64_t) ? ncclSuccess : ncclSystemError;
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
