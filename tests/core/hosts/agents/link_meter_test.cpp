// Two ends without a network: what one sends is answered at once.
#include "core/hosts/agents/link_meter.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <utility>

#include "core/hosts/exchange/message_link.h"
#include "tests/error_of.h"

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
    const auto asked = read_message<LookQuestion>(near.messages.front());
    near.messages.pop_front();
    std::visit(
        [&](const auto& one) {
          if constexpr (requires { end.answer(far, one); }) end.answer(far, one);
        },
        asked);
    REQUIRE(far.messages.size() == 1);
    ++answered;
    const auto said = read_message<LookReply>(far.messages.front());
    far.messages.pop_front();
    std::visit(
        [&](const auto& one) {
          if constexpr (requires { meter.hear(one); }) meter.hear(one);
        },
        said);
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

TEST_CASE("a message of another form than agreed is refused") {
  for (const char* text : {R"({"is": "bulk_received"})", R"({"is": "bulk_received", "bytes": "many"})",
                           R"({"is": "nothing"})", R"({"pong": true})", "[]", "{"}) {
    CAPTURE(text);
    CHECK(error_of([&] { read_message<LookReply>(text); }).fault() == Fault::corrupt);
  }
}

}  // namespace
}  // namespace estrain::hosts
