#include "core/hosts/step/gradient_sums.h"

#include <doctest/doctest.h>

#include <cstring>

#include "core/base/error.h"
#include "core/hosts/exchange/wire.h"
#include "tests/core/hosts/step/hosts_in_memory.h"

namespace estrain::hosts {
namespace {

using namespace in_memory;

TEST_CASE("what all workers of a host have folded leaves while they fold the rest, and its sum may be used then") {
  Hosts hosts({{1, 1}, {2}}, 1);
  const Gradients gradients = random_gradients(hosts.ests(), hosts.random);
  const Presence presence = all_present(hosts.ests());
  std::vector<Folding> first = workers_of(hosts[0]), second = workers_of(hosts[1]);
  const auto fold_all_but_two = [&](Folding& worker) {
    for (size_t i = 2; i < kParameters; ++i) worker.fold_next(gradients, presence);
  };
  fold_all_but_two(first[0]);
  hosts.deliver();
  CHECK(hosts[0].sent_bytes == 0);
  fold_all_but_two(first[1]);
  hosts.deliver();
  CHECK(hosts[0].sent_bytes > 0);
  CHECK(!hosts[0].memory.sums().is_summed(offset_of(kParameters - 1)));
  fold_all_but_two(second[0]);
  hosts.deliver();

  const Sum expected = tree(gradients, presence, 0, hosts.ests());
  for (const auto& host : hosts.all) {
    CHECK(host->memory.sums().is_summed(offset_of(3)));
    CHECK(!host->memory.sums().is_summed(0));
    for (size_t i = 3; i < kParameters; ++i) check_sum(*host, expected, i);
  }
}

TEST_CASE("each host sends 2 P (H-1)/H values, and little else, where it passes on one partial sum") {
  Hosts hosts({{2}, {2}, {4}, {8}}, 1);
  train_step(hosts, 0);
  const double values = static_cast<double>(hosts[0].exchange->parts().floats()) * sizeof(float);
  for (const auto& host : hosts.all) {
    const double beside =
        3.0 * (600 + 128 * sizeof(float)) + 100;  // contexts, a piece more than others, presence flags
    CHECK(static_cast<double>(host->sent_bytes) <= 2 * values * 3 / 4 + beside);
  }
}

TEST_CASE("frames of partial sums and sums that come out of turn are refused") {
  Hosts hosts({{1}, {1}}, 1);
  StepExchange& exchange = *hosts[0].exchange;
  const uint64_t now = round_number(3, 0);
  CHECK_THROWS_WITH_AS(exchange.room_for(1, {sum, 4, now, 0}), "a sum out of turn", Error);
  CHECK_THROWS_AS(exchange.room_for(1, {partial, 1, now, 1}), Error);        // begins in the middle
  CHECK_THROWS_AS(exchange.room_for(1, {partial, 1 << 20, now, 0}), Error);  // too long
  CHECK_THROWS_AS(exchange.room_for(1, {partial, 0, now, 0}), Error);
  CHECK_NOTHROW(exchange.room_for(1, {partial, 1, now, 0}));
  // The first piece is host 0's, the second host 1's: that one is sent first.
  Folding worker = workers_of(hosts[0])[0];
  const Gradients gradients = random_gradients(2, hosts.random);
  for (size_t i = 0; i < kParameters; ++i) worker.fold_next(gradients, Presence(2, std::vector<bool>(kParameters)));
  exchange.work();
  CHECK_THROWS_WITH_AS(exchange.room_for(1, {sum, 1, now, 0}), "a sum out of turn", Error);
  exchange.work();
  CHECK_NOTHROW(exchange.room_for(1, {sum, 1, now, 0}));
}

const std::vector<ParameterRange> kTwoParameters = {{0, 300}, {320, 420}};

// Pieces of a job of two hosts, by owner.
struct TwoHosts {
  std::vector<Piece> pieces = cut_pieces(kTwoParameters, 2, 128);
  std::vector<const Piece*> here, there;
  TwoHosts() {
    for (const Piece& piece : pieces) (piece.owner == 0 ? here : there).push_back(&piece);
  }
};

// Puts bytes of the value into the next places of an inflow, as frames do.
class Feeding {
 public:
  explicit Feeding(Inflow& inflow) : inflow_(inflow) {}

  void flags(size_t count, uint8_t value) { add(std::vector<std::byte>(count, std::byte{value})); }
  void floats(size_t count, float value) {
    const std::vector<float> values(count, value);
    const auto bytes = std::as_bytes(std::span(values));
    add({bytes.begin(), bytes.end()});
  }

 private:
  void add(const std::vector<std::byte>& bytes) {
    const net::FrameHead head = {partial, static_cast<uint32_t>(bytes.size()), 0, offset_};
    const std::span<std::byte> room = inflow_.room_for(head);
    REQUIRE(room.size() == bytes.size());
    std::ranges::copy(bytes, room.begin());
    inflow_.received(head);
    offset_ += bytes.size();
  }

  Inflow& inflow_;
  uint64_t offset_ = 0;
};

TEST_CASE("partial sums of another host are complete piece by piece, a row for each that it passes on") {
  const TwoHosts hosts;
  REQUIRE(hosts.here.size() > 1);
  PeerSums sums(2, hosts.here, hosts.there);
  Feeding frames(sums.partials());
  for (size_t i = 0; i < hosts.here.size(); ++i) {
    const Piece& piece = *hosts.here[i];
    const auto value = static_cast<float>(10 * i);
    frames.flags(piece.parameters(), 1);
    frames.flags(piece.parameters(), 0);
    frames.floats(piece.floats.size(), value);
    CHECK(!sums.has_partials(piece));
    frames.floats(piece.floats.size(), value + 1);
    CHECK(sums.has_partials(piece));
  }
  for (size_t i = 0; i < hosts.here.size(); ++i) {
    const Piece& piece = *hosts.here[i];
    for (size_t row = 0; row < 2; ++row) {
      const PieceSource source = sums.row(row, piece);
      CHECK(source.values[0] == static_cast<float>(10 * i + row));
      CHECK(source.values[piece.floats.size() - 1] == static_cast<float>(10 * i + row));
      CHECK(source.presence[0] == (row == 0 ? 1 : 0));
      CHECK(source.presence[piece.parameters() - 1] == (row == 0 ? 1 : 0));
    }
  }
}

TEST_CASE("sums of another host are taken one by one, each to its place in the slot") {
  const TwoHosts hosts;
  PeerSums sums(1, hosts.here, hosts.there);
  std::vector<float> values(420, -1);
  std::vector<uint8_t> presence(2, 9);
  const comm::GradientSlot slot = {values.data(), presence.data()};
  Feeding frames(sums.sums());
  for (size_t i = 0; i < hosts.there.size(); ++i) {
    const Piece& piece = *hosts.there[i];
    CHECK(sums.due() == &piece);
    frames.flags(piece.parameters(), 1);
    CHECK(!sums.take_sum(slot));
    frames.floats(piece.floats.size(), static_cast<float>(i));
    CHECK(sums.take_sum(slot));
    CHECK(sums.taken() == i + 1);
    CHECK(values[piece.floats.begin] == static_cast<float>(i));
    CHECK(values[piece.floats.end - 1] == static_cast<float>(i));
    CHECK(presence[piece.first_parameter] == 1);
  }
  CHECK(sums.due() == nullptr);
  for (const Piece* piece : hosts.here) CHECK(values[piece->floats.begin] == -1);
}

TEST_CASE("frames of the next step begin where those of the last one began") {
  const TwoHosts hosts;
  PeerSums sums(1, hosts.here, hosts.there);
  Feeding(sums.sums()).flags(hosts.there[0]->parameters(), 1);
  CHECK_THROWS_AS(Feeding(sums.sums()).flags(hosts.there[0]->parameters(), 1), Error);
  sums.begin_anew();
  CHECK(sums.due() == hosts.there[0]);
  CHECK_NOTHROW(Feeding(sums.sums()).flags(hosts.there[0]->parameters(), 1));
}

}  // namespace
}  // namespace estrain::hosts
