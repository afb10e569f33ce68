// How many bytes a second connections between hosts carry (core/hosts/net/connection.h), over the loopback interface: a
// process that sends frames of 1 MiB, and one that receives them.
//
//   carrier SECONDS STREAMS encrypted|clear [BITS_PER_SECOND]      prints bytes a second
//
// With BITS_PER_SECOND both processes send and receive, as hosts do in a step, each at most so much, as by a link of
// that rate. Each has one thread for all of it, as a courier has.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/hosts/net/connection.h"

namespace {

using namespace estrain;

constexpr size_t kMostWaiting = 32 << 20;  // bytes in the queue of a stream
constexpr int64_t kWarmNs = 300'000'000;

net::SharedKey key() {
  std::array<std::byte, net::key_bytes> bytes;
  bytes.fill(std::byte{1});
  return net::SharedKey(bytes);
}

net::Greeting greeting(const std::string& host, bool clear) {
  net::Greeting own;
  own.host = host;
  own.purpose = "bench";
  own.clear = clear;
  return own;
}

class Sink : public net::FrameSink {
 public:
  std::optional<std::span<std::byte>> room_for(const net::FrameHead& head) override {
    return std::span(place_).first(head.bytes);
  }
  void received(const net::FrameHead& head) override {
    const int64_t now = monotonic_ns();
    if (begin_ == 0) begin_ = now;
    if (now - begin_ < kWarmNs) return;
    if (counted_from_ == 0) {
      counted_from_ = now;
      return;
    }
    bytes_ += head.bytes;
    last_ = now;
  }
  double bytes_per_second() const {
    return static_cast<double>(bytes_) / (static_cast<double>(last_ - counted_from_) / 1e9);
  }

 private:
  std::vector<std::byte> place_ = std::vector<std::byte>(net::most_frame_bytes);
  int64_t begin_ = 0, counted_from_ = 0, last_ = 0;
  uint64_t bytes_ = 0;
};

// Frames of random bytes, which are not packed, however slow the machine is.
class Source {
 public:
  // No `bytes_per_second`: as many as the connections take.
  Source(net::Loop& loop, double bytes_per_second) : bytes_per_second_(bytes_per_second) {
    std::mt19937 random;
    std::ranges::generate(block_, [&] { return static_cast<std::byte>(random()); });
    fill_ = loop.every(1ms, [this] { fill(); });
  }
  void add(const net::ConnectionPtr& connection) { connections_.push_back(connection); }
  void close() {
    for (const net::ConnectionPtr& each : connections_) each->close();
  }

 private:
  // A link that was idle does not make up for it.
  void fill() {
    const int64_t now = monotonic_ns();
    const double more = bytes_per_second_ * static_cast<double>(now - filled_ns_) / 1e9;
    allowed_ = std::min(allowed_ + more, static_cast<double>(kMostWaiting));
    filled_ns_ = now;
    for (const net::ConnectionPtr& each : connections_) {
      while (each->bytes_waiting() < kMostWaiting && (bytes_per_second_ == 0 || allowed_ >= net::most_frame_bytes)) {
        each->send_from({2, net::most_frame_bytes, 0, 0}, block_);
        allowed_ -= net::most_frame_bytes;
      }
    }
  }

  const double bytes_per_second_;
  std::vector<std::byte> block_ = std::vector<std::byte>(net::most_frame_bytes);
  std::vector<net::ConnectionPtr> connections_;
  int64_t filled_ns_ = monotonic_ns();
  double allowed_ = 0;
  std::shared_ptr<net::Loop::Timer> fill_;
};

int receive(int port_pipe, int streams, double bytes_per_second) {
  net::Loop loop;
  std::optional<Source> source;
  if (bytes_per_second > 0) source.emplace(loop, bytes_per_second);
  Sink sink;  // of all streams: a frame is read whole before another stream has its turn, or its bytes do not matter
  int ended = 0;
  std::vector<net::ConnectionPtr> connections;
  net::Listener listener(loop, key(),
                         {.at = {"127.0.0.1", 0},
                          .own = greeting("receiver", false),
                          .accepted =
                              [&](net::ConnectionPtr connection) {
                                connections.push_back(connection);
                                if (source) source->add(connection);
                                connection->start(sink, [&](const Error&) {
                                  if (++ended == streams) loop.stop();
                                });
                              },
                          .refused = [](const std::string&, const Error& why) { throw why; }});
  const uint16_t port = listener.address().port;
  if (::write(port_pipe, &port, sizeof port) != sizeof port) return 1;
  loop.run();
  fmt::print("{:.0f}\n", sink.bytes_per_second());
  return 0;
}

void send(uint16_t port, double seconds, int streams, bool clear, double bytes_per_second) {
  net::Loop loop;
  Source source(loop, bytes_per_second);
  Sink sink;
  for (int i = 0; i < streams; ++i) {
    net::connect(loop, key(), {.to = {"127.0.0.1", port}, .host = "receiver", .own = greeting("sender", clear)},
                 [&](const net::ConnectionPtr& made, const Error* why) {
                   if (why != nullptr) throw *why;
                   made->start(sink, [](const Error& lost) { throw lost; });
                   source.add(made);
                 });
  }
  const auto end = loop.once(nanoseconds(Seconds(seconds)), [&] { loop.stop(); });
  loop.run();
  source.close();
}

}  // namespace

int main(int count, char** words) {
  if (count != 4 && count != 5) {
    fmt::print(stderr, "usage: carrier SECONDS STREAMS encrypted|clear [BITS_PER_SECOND]\n");
    return 2;
  }
  const int streams = std::atoi(words[2]);
  const double bytes_per_second = count == 5 ? std::atof(words[4]) / 8 : 0;
  int ends[2];
  if (::pipe(ends) != 0) return 1;
  const pid_t receiver = ::fork();
  if (receiver == 0) std::exit(receive(ends[1], streams, bytes_per_second));
  uint16_t port = 0;
  if (::read(ends[0], &port, sizeof port) != sizeof port) return 1;
  send(port, std::atof(words[1]), streams, words[3] == std::string("clear"), bytes_per_second);
  int status = 0;
  ::waitpid(receiver, &status, 0);
  return status == 0 ? 0 : 1;
}
