#include <doctest/doctest.h>

#include <cstring>

#include "core/base/error.h"
#include "core/hosts/exchange/wire.h"
#include "core/hosts/step/gradient_sums.h"

namespace estrain::hosts {
namespace {

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
