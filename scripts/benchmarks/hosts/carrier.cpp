// How many bytes a second connections between hosts carry (core/net/connection.h), over the loopback interface: a
// process that sends frames of 1 MiB, and one that receives them.
//
//   carrier SECONDS STREAMS encrypted|clear      prints bytes a second
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/net/connection.h"

namespace {

using namespace estrain;

constexpr size_t kMostWaiting = 32 << 20;  // bytes in the queue of a stream
constexpr int64_t kWarmNs = 300'000'000;

net::Key key() {
  std::array<std::byte, net::key_bytes> bytes;
  bytes.fill(std::byte{1});
  return net::Key(bytes);
}

net::Greeting greeting(bool clear) {
  net::Greeting own;
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

int receive(int port_pipe, int streams) {
  net::Loop loop;
  Sink sink;  // of all streams: a frame is read whole before another stream has its turn, or its bytes do not matter
  int ended = 0;
  std::vector<net::ConnectionPtr> connections;
  net::Listener listener(loop, key(),
                         {.at = {"127.0.0.1", 0},
                          .own = greeting(false),
                          .accepted =
                              [&](net::ConnectionPtr connection) {
                                connections.push_back(connection);
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

void send(uint16_t port, double seconds, int streams, bool clear) {
  net::Loop loop;
  std::vector<std::byte> block(net::most_frame_bytes);
  std::mt19937 random;  // random bytes are not packed, however slow the machine is
  std::ranges::generate(block, [&] { return static_cast<std::byte>(random()); });
  std::vector<net::ConnectionPtr> connections;
  const net::FrameHead head{2, net::most_frame_bytes, 0, 0};
  const auto fill = loop.every(1, [&] {
    for (const net::ConnectionPtr& each : connections) {
      while (each->bytes_waiting() < kMostWaiting) each->send_from(head, block);
    }
  });
  Sink nothing;
  for (int i = 0; i < streams; ++i) {
    net::connect(loop, key(), {.to = {"127.0.0.1", port}, .own = greeting(clear)},
                 [&](net::ConnectionPtr made, const Error* why) {
                   if (why != nullptr) throw *why;
                   made->start(nothing, [](const Error& lost) { throw lost; });
                   connections.push_back(made);
                 });
  }
  const auto end = loop.once(static_cast<int>(seconds * 1000), [&] { loop.stop(); });
  loop.run();
  for (const net::ConnectionPtr& each : connections) each->close();
}

}  // namespace

int main(int count, char** words) {
  if (count != 4) {
    fmt::print(stderr, "usage: carrier SECONDS STREAMS encrypted|clear\n");
    return 2;
  }
  const int streams = std::atoi(words[2]);
  int ends[2];
  if (::pipe(ends) != 0) return 1;
  const pid_t receiver = ::fork();
  if (receiver == 0) std::exit(receive(ends[1], streams));
  uint16_t port = 0;
  if (::read(ends[0], &port, sizeof port) != sizeof port) return 1;
  send(port, std::atof(words[1]), streams, words[3] == std::string("clear"));
  int status = 0;
  ::waitpid(receiver, &status, 0);
  return status == 0 ? 0 : 1;
}
