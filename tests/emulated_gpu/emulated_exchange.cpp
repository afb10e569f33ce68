#include "tests/emulated_gpu/emulated_exchange.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <vector>

#include "core/base/error.h"
#include "core/base/unique_fd.h"
#include "tests/emulated_gpu/backend.h"

namespace estrain::testing {
namespace {

constexpr int kLookMs = 20;
constexpr int kJunk = 0x7F;

// Of a worker; in the namespace of names that no file stands behind.
sockaddr_un address_of(const device::ExchangeId& id, uint32_t worker, socklen_t* length) {
  uint64_t key = 0;
  std::memcpy(&key, id.data(), sizeof key);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  const int written = std::snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "estrain-%016llx-%u",
                                    static_cast<unsigned long long>(key), worker);
  *length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<size_t>(written));
  return address;
}

UniqueFd new_socket() {
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) throw system_error("socket", errno);
  return socket;
}

class EmulatedExchange : public device::Exchange {
 public:
  explicit EmulatedExchange(const device::ExchangeParty& party)
      : worker_(party.worker), peers_(party.workers), abort_(party.abort), beat_(party.beat) {}

  ~EmulatedExchange() override {
    for (const device::Transfer& receive : cut_off_) {
      if (!is_in_use(receive.memory, receive.bytes)) {
        std::fputs("memory was released that a transfer may still write\n", stderr);
        std::abort();
      }
      std::memset(receive.memory, kJunk, receive.bytes);
    }
  }

  // Connects to the workers before this one, and is connected to by those behind it.
  bool meet(const device::ExchangeId& id) {
    socklen_t length = 0;
    const UniqueFd listener = new_socket();
    const sockaddr_un own = address_of(id, worker_, &length);
    if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&own), length) != 0 ||
        ::listen(listener.get(), static_cast<int>(peers_.size())) != 0)
      throw system_error("listen", errno);
    for (uint32_t peer = 0; peer < worker_; ++peer) {
      if (!connect_to(id, peer)) return false;
    }
    for (size_t left = peers_.size() - worker_ - 1; left > 0; --left) {
      pollfd waits{listener.get(), POLLIN, 0};
      while (::poll(&waits, 1, kLookMs) <= 0) {
        if (abort_.load() != 0) return false;
        beat_();
      }
      UniqueFd socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
      uint32_t who = 0;
      if (!socket || ::recv(socket.get(), &who, sizeof who, MSG_WAITALL) != sizeof who ||
          ::fcntl(socket.get(), F_SETFL, O_NONBLOCK) != 0)
        throw system_error("accept", errno);
      peers_[who].socket = std::move(socket);
    }
    return true;
  }

  void transfer(std::span<const device::Transfer> sends, std::span<const device::Transfer> receives) override {
    for (const device::Transfer& send : sends) peers_[send.peer].out.push_back(send);
    for (const device::Transfer& receive : receives) peers_[receive.peer].in.push_back(receive);
    while (abort_.load() == 0 && pump()) {
    }
    for (Peer& peer : peers_) {
      cut_off_.insert(cut_off_.end(), peer.in.begin(), peer.in.end());
      peer.out.clear();
      peer.in.clear();
    }
  }
  void join() override {}
  void check() override {}

 private:
  struct Peer {
    UniqueFd socket;
    std::deque<device::Transfer> out, in;
  };

  bool connect_to(const device::ExchangeId& id, uint32_t peer) {
    socklen_t length = 0;
    const sockaddr_un address = address_of(id, peer, &length);
    while (abort_.load() == 0) {
      UniqueFd socket = new_socket();
      if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) == 0) {
        if (::send(socket.get(), &worker_, sizeof worker_, MSG_NOSIGNAL) != sizeof worker_)
          throw system_error("send", errno);
        peers_[peer].socket = std::move(socket);
        return true;
      }
      beat_();
      ::usleep(1000);
    }
    return false;
  }

  // Moves what can be moved, or waits for a moment. Whether something is left; of a peer that is gone it is, until the
  // stage is aborted.
  bool pump() {
    std::vector<pollfd> waits;
    for (Peer& peer : peers_) {
      const int events = (peer.out.empty() ? 0 : POLLOUT) | (peer.in.empty() ? 0 : POLLIN);
      if (events != 0) waits.push_back({peer.socket.get(), static_cast<short>(events), 0});
    }
    if (waits.empty()) return false;
    ::poll(waits.data(), waits.size(), kLookMs);
    bool moved = false;
    for (Peer& peer : peers_) {
      moved |= move(peer.out, [&](void* at, size_t n) { return ::send(peer.socket.get(), at, n, MSG_NOSIGNAL); });
      moved |= move(peer.in, [&](void* at, size_t n) { return ::recv(peer.socket.get(), at, n, 0); });
    }
    if (!moved) ::usleep(100);
    return true;
  }

  template <typename Call>
  static bool move(std::deque<device::Transfer>& transfers, Call call) {
    bool moved = false;
    while (!transfers.empty()) {
      device::Transfer& next = transfers.front();
      const ssize_t n = call(next.memory, next.bytes);
      if (n <= 0) return moved;
      moved = true;
      next.memory = static_cast<std::byte*>(next.memory) + n;
      next.bytes -= static_cast<size_t>(n);
      if (next.bytes == 0) transfers.pop_front();
    }
    return moved;
  }

  const uint32_t worker_;
  std::vector<Peer> peers_;
  std::vector<device::Transfer> cut_off_;
  const std::atomic<uint32_t>& abort_;
  const std::function<void()> beat_;
};

}  // namespace

device::ExchangeId new_exchange_id() {
  device::ExchangeId id{};
  if (::getrandom(id.data(), sizeof(uint64_t), 0) != sizeof(uint64_t)) throw system_error("getrandom", errno);
  return id;
}

std::unique_ptr<device::Exchange> open_emulated_exchange(const device::ExchangeId& id,
                                                         const device::ExchangeParty& party) {
  auto exchange = std::make_unique<EmulatedExchange>(party);
  if (!exchange->meet(id)) return nullptr;
  return exchange;
}

}  // namespace estrain::testing
