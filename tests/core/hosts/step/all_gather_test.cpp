#include "core/hosts/step/all_gather.h"

#include <doctest/doctest.h>

#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <utility>

#include "core/base/error.h"

namespace estrain::hosts {
namespace {

constexpr uint32_t kKind = 9;

// Hosts in one process: frames wait in queues, one for each pair.
struct Circle {
  struct Outbox : StepOutbox {
    std::vector<std::deque<std::pair<net::FrameHead, std::vector<std::byte>>>> to;
    size_t frames = 0;

    void send(size_t host, const net::FrameHead& head, std::span<const std::byte> bytes) override {
      to[host].push_back({head, {bytes.begin(), bytes.end()}});
      ++frames;
    }
    void send_copy(size_t host, const net::FrameHead& head, std::span<const std::byte> bytes) override {
      send(host, head, bytes);
    }
  };

  explicit Circle(std::vector<size_t> sizes, uint64_t seed) : bytes(std::move(sizes)), random(seed) {
    for (size_t own = 0; own < bytes.size(); ++own) {
      outboxes.push_back(std::make_unique<Outbox>());
      outboxes.back()->to.resize(bytes.size());
      hosts.push_back(std::make_unique<AllGather>(kKind, own, bytes, *outboxes.back()));
    }
  }

  std::vector<std::byte> block(size_t host, uint64_t number) const {
    std::vector<std::byte> made(bytes[host]);
    for (size_t i = 0; i < made.size(); ++i) made[i] = static_cast<std::byte>(host * 7 + i * 3 + number);
    return made;
  }

  // Delivers one frame, of a random pair. Returns false if no frame is under way.
  bool deliver_one() {
    std::vector<std::pair<size_t, size_t>> waiting;
    for (size_t from = 0; from < hosts.size(); ++from) {
      for (size_t to = 0; to < hosts.size(); ++to) {
        if (!outboxes[from]->to[to].empty()) waiting.emplace_back(from, to);
      }
    }
    if (waiting.empty()) return false;
    const auto [from, to] = waiting[random() % waiting.size()];
    const auto [head, sent] = std::move(outboxes[from]->to[to].front());
    outboxes[from]->to[to].pop_front();
    Inflow& inflow = hosts[to]->from(from);
    const std::span<std::byte> room = inflow.room_for(head);
    std::memcpy(room.data(), sent.data(), sent.size());
    inflow.received(head);
    hosts[to]->advance();
    return true;
  }

  // Gives blocks in a random order, between frames.
  void gather(uint64_t number) {
    std::vector<size_t> order(hosts.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::shuffle(order, random);
    for (const size_t host : order) {
      CHECK(!hosts[order.back()]->complete());
      while (random() % 2 == 0 && deliver_one()) continue;
      hosts[host]->give(number, block(host, number));
    }
    while (deliver_one()) continue;
  }

  const std::vector<size_t> bytes;
  std::mt19937_64 random;
  std::vector<std::unique_ptr<Outbox>> outboxes;
  std::vector<std::unique_ptr<AllGather>> hosts;
};

size_t rounds_of(size_t hosts) {
  size_t rounds = 0;
  for (size_t width = 1; width < hosts; width *= 4) ++rounds;
  return rounds;
}

TEST_CASE("every block reaches every host, round after round, whatever the order of frames") {
  for (const size_t number_of_hosts : {2, 3, 4, 5, 6, 7, 8, 13, 16, 17, 31, 40}) {
    CAPTURE(number_of_hosts);
    std::vector<size_t> sizes(number_of_hosts);
    for (size_t i = 0; i < sizes.size(); ++i) sizes[i] = i % 3 == 1 ? 0 : 5 + i;
    Circle circle(sizes, number_of_hosts);
    for (const uint64_t number : {4, 5, 9}) {
      circle.gather(number);
      for (const auto& host : circle.hosts) {
        REQUIRE(host->complete());
        for (size_t of = 0; of < number_of_hosts; ++of) {
          const std::vector<std::byte> expected = circle.block(of, number);
          CHECK(std::ranges::equal(host->of(of), expected));
        }
        host->begin_anew();
        CHECK(!host->complete());
      }
    }
  }
}

TEST_CASE("a host sends few frames: one to each other host up to four hosts, then three for each factor of four") {
  for (const size_t number_of_hosts : {2, 3, 4, 5, 16, 17, 33, 64, 128}) {
    CAPTURE(number_of_hosts);
    Circle circle(std::vector<size_t>(number_of_hosts, 16), 1);
    circle.gather(1);
    for (const auto& outbox : circle.outboxes)
      CHECK(outbox->frames <= std::min(number_of_hosts - 1, 3 * rounds_of(number_of_hosts)));
  }
}

TEST_CASE("a host that has nothing to pass on to another one is refused by it") {
  Circle circle(std::vector<size_t>(17, 8), 1);
  CHECK_NOTHROW(circle.hosts[0]->from(16));
  CHECK_THROWS_AS(circle.hosts[0]->from(17 - 6), Error);
  CHECK_THROWS_AS(circle.hosts[0]->from(0), Error);
}

TEST_CASE("a block of a size that the others do not expect is this program's mistake") {
  Circle circle({8, 8}, 1);
  const std::vector<std::byte> longer(9);
  CHECK_THROWS_WITH_AS(circle.hosts[0]->give(1, longer), doctest::Contains("another size"), Error);
}

}  // namespace
}  // namespace estrain::hosts
