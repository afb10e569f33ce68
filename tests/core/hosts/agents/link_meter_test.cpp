// Two ends without a network: what one sends is answered at once.
#include "core/hosts/agents/link_meter.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <utility>

#include "core/hosts/exchange/wire.h"

namespace estrain::hosts {
namespace {

class Wire : public net::Connection {
 public:
  const net::Greeting& peer() const override { return greeting_; }
  const std::string& peer_address() const override { return address_; }
  void start(net::FrameSink&, std::function<void(const Error&)>) override {}
  void retry() override {}
  void send(const net::FrameHead&, std::string payload) override { messages.push_back(std::move(payload)); }
  void send_from(const net::FrameHead& head, std::span<const std::byte> payload) override {
    bulk_kinds += head.kind == bulk ? 1 : 0;
    bulk_bytes += payload.size();
    for (const std::byte byte : payload) ++counts[static_cast<size_t>(byte)];
  }
  size_t bytes_waiting() const override { return 0; }
  bool ended_by_peer() const override { return false; }
  void close() override {}

  std::deque<std::string> messages;
  size_t bulk_bytes = 0, bulk_kinds = 0;
  std::array<size_t, 256> counts{};

 private:
  net::Greeting greeting_;
  std::string address_;
};

// Until nobody says anything more. Returns how many messages the other end answered.
int talk(LinkMeter& meter, Wire& near) {
  Wire far;
  MeterEnd end;
  int answered = 0;
  size_t counted = 0;
  while (!near.messages.empty()) {
    end.count(near.bulk_bytes - std::exchange(counted, near.bulk_bytes));
    const Json asked = parse_json(near.messages.front(), "test");
    near.messages.pop_front();
    REQUIRE(end.answer(far, asked));
    ++answered;
    while (!far.messages.empty()) {
      CHECK(meter.hear(parse_json(far.messages.front(), "test")));
      far.messages.pop_front();
    }
  }
  return answered;
}

TEST_CASE("a link is measured by some round trips and what arrives in a second") {
  Wire near;
  LinkMeter meter(near, 3);
  meter.begin();
  CHECK(talk(meter, near) == 6);
  CHECK(meter.is_done());
  CHECK(near.bulk_kinds == 3);
  CHECK(near.bulk_bytes == 3 * size_t{net::most_frame_bytes});
  CHECK(*std::ranges::max_element(near.counts) < near.bulk_bytes / 200);  // no connection can pack them
  CHECK(meter.round_trip_seconds() > 0);
  CHECK(meter.bytes_per_second() > 0);
}

TEST_CASE("round trips alone, if no bytes are to be sent") {
  Wire near;
  LinkMeter meter(near, 0);
  meter.begin();
  CHECK(talk(meter, near) == 5);
  CHECK(meter.is_done());
  CHECK(near.bulk_bytes == 0);
}

TEST_CASE("other messages are left to others") {
  Wire near;
  LinkMeter meter(near, 1);
  MeterEnd end;
  CHECK(!meter.hear({{"say", "opened"}}));
  CHECK(!end.answer(near, {{"ask", "facts"}}));
  CHECK(near.messages.empty());
}

}  // namespace
}  // namespace estrain::hosts
