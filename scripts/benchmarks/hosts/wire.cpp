// A switch with full-duplex links between hosts: each host is a TAP device, and what one sends is carried to the
// others.
//
//   wire BITS_PER_SECOND DELAY_SECONDS DESCRIPTOR...      prints "ready", then runs until a device is gone
//
// A frame leaves its host once those before it have, at the link's bandwidth; after the delay it enters the other host
// at that host's bandwidth. Frames of up to 64 KiB (segmentation is left to the link) count with the headers of their
// packets. The last byte of a host's Ethernet address is its number.

#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <memory>
#include <vector>

namespace {

constexpr size_t kHeadBytes = 10;                      // of virtio_net, before each frame
constexpr size_t kSegment = 1448, kSegmentHeads = 90;  // bytes of a TCP segment; its headers, preamble and gap
constexpr double kMostWaiting = 1 << 20;               // bytes: then a host's own queue fills
constexpr int64_t kSecond = 1'000'000'000;

int64_t now_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * kSecond + time.tv_nsec;
}

struct Frame {
  std::array<unsigned char, 70000> bytes;  // not set to zero: most of it stays unused
  size_t size = 0;
};

struct Host {
  struct Waiting {
    int64_t there = 0;  // when its last bit is
    std::shared_ptr<const Frame> frame;
  };
  int tap = -1;
  int64_t sends_until = 0, receives_until = 0;
  std::deque<Waiting> coming;
};

class Wire {
 public:
  Wire(double rate, double delay, const std::vector<int>& taps)
      : rate_(rate), delay_(static_cast<int64_t>(delay * kSecond)) {
    for (const int tap : taps) hosts_.push_back({.tap = tap, .coming = {}});
  }

  void run() {
    std::vector<pollfd> polled(hosts_.size());
    for (;;) {
      const int64_t now = now_ns();
      int64_t until = INT64_MAX;
      for (Host& host : hosts_) deliver(host, now);
      for (size_t i = 0; i < hosts_.size(); ++i) {
        take(i, now);
        const bool listens = may_send(hosts_[i], now);
        polled[i] = {.fd = listens ? hosts_[i].tap : -1, .events = POLLIN, .revents = 0};
        if (!listens) until = std::min(until, hosts_[i].sends_until - bytes_ns(kMostWaiting) + 1000);
      }
      for (const Host& host : hosts_) {
        if (!host.coming.empty()) until = std::min(until, host.coming.front().there);
      }
      const int64_t wait = std::clamp<int64_t>(until - now_ns(), 0, kSecond);
      const timespec time{.tv_sec = wait / kSecond, .tv_nsec = wait % kSecond};
      ::ppoll(polled.data(), polled.size(), &time, nullptr);
    }
  }

 private:
  int64_t bytes_ns(double bytes) const { return static_cast<int64_t>(8 * bytes / rate_ * kSecond); }
  bool may_send(const Host& host, int64_t now) const { return host.sends_until - now < bytes_ns(kMostWaiting); }

  // Everything that a host has to send, as far as it may wait here.
  void take(size_t from, int64_t now) {
    while (may_send(hosts_[from], now)) {
      if (!spare_) spare_ = std::make_shared_for_overwrite<Frame>();
      const ssize_t got = ::read(hosts_[from].tap, spare_->bytes.data(), spare_->bytes.size());
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
      if (got < static_cast<ssize_t>(kHeadBytes + 6)) std::exit(0);  // its namespace is gone: so are all others
      spare_->size = static_cast<size_t>(got);
      const std::shared_ptr<const Frame> frame = std::move(spare_);
      const unsigned char* address = frame->bytes.data() + kHeadBytes;
      for (size_t to = 0; to < hosts_.size(); ++to) {
        if (to != from && (address[0] != 2 || address[5] == to)) carry(from, to, frame, now);
      }
    }
  }

  // Its first bit comes in after the delay; the other link may still be busy then.
  void carry(size_t from, size_t to, const std::shared_ptr<const Frame>& frame, int64_t now) {
    const size_t segments = (frame->size + kSegment - 1) / kSegment;
    const int64_t takes = bytes_ns(static_cast<double>(frame->size + kSegmentHeads * segments));
    Host &sender = hosts_[from], &receiver = hosts_[to];
    const int64_t begins = std::max(now, sender.sends_until);
    sender.sends_until = begins + takes;
    receiver.receives_until = std::max(begins + delay_, receiver.receives_until) + takes;
    receiver.coming.push_back({receiver.receives_until, frame});
  }

  // A frame for a device that is down is lost.
  static void deliver(Host& host, int64_t now) {
    for (; !host.coming.empty() && host.coming.front().there <= now; host.coming.pop_front()) {
      const Frame& frame = *host.coming.front().frame;
      if (::write(host.tap, frame.bytes.data(), frame.size) < 0) continue;
    }
  }

  const double rate_;
  const int64_t delay_;
  std::vector<Host> hosts_;
  std::shared_ptr<Frame> spare_;
};

}  // namespace

int main(int count, char** words) {
  if (count < 4) {
    std::fputs("usage: wire BITS_PER_SECOND DELAY_SECONDS DESCRIPTOR...\n", stderr);
    return 2;
  }
  std::vector<int> taps;
  for (int i = 3; i < count; ++i) taps.push_back(std::atoi(words[i]));
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const sched_param first{.sched_priority = 10};  // a switch does not wait for a host's processor
  ::sched_setscheduler(0, SCHED_FIFO, &first);
  ::prctl(PR_SET_TIMERSLACK, 1);
  std::puts("ready");
  std::fflush(stdout);
  Wire(std::atof(words[1]), std::atof(words[2]), taps).run();
}
