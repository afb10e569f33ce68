#include "core/hosts/exchange/inflow.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>

#include "core/base/error.h"

namespace estrain::hosts {
namespace {

net::FrameHead frame_at(uint64_t offset, uint32_t bytes) { return {7, bytes, 0, offset}; }

TEST_CASE(
    "frames fill the places of an inflow one behind the other; a place may take several, an empty one takes none") {
  std::array<std::byte, 10> first{}, second{};
  Inflow inflow({std::span(first), {}, std::span(second)});
  uint64_t offset = 0;
  const auto takes = [&](uint32_t bytes, const std::byte* expected) {
    const net::FrameHead head = frame_at(offset, bytes);
    const std::span<std::byte> room = inflow.room_for(head);
    CHECK(room.data() == expected);
    CHECK(room.size() == bytes);
    inflow.received(head);
    offset += bytes;
  };
  takes(4, first.data());
  takes(6, first.data() + 4);
  CHECK(!inflow.complete());
  takes(9, second.data());
  CHECK(inflow.bytes() == 19);
  takes(1, second.data() + 9);
  CHECK(inflow.complete());
  CHECK_THROWS_AS(inflow.room_for(frame_at(20, 1)), Error);
  inflow.begin_anew();
  offset = 0;
  takes(10, first.data());
}

TEST_CASE("an inflow refuses frames that are empty, out of turn, or reach past a place") {
  std::array<std::byte, 10> first{}, second{};
  Inflow inflow({std::span(first), std::span(second)});
  CHECK_THROWS_WITH_AS(inflow.room_for(frame_at(0, 0)), doctest::Contains("out of turn"), Error);
  CHECK_THROWS_WITH_AS(inflow.room_for(frame_at(1, 1)), doctest::Contains("out of turn"), Error);
  CHECK_THROWS_WITH_AS(inflow.room_for(frame_at(0, 11)), doctest::Contains("11 bytes behind byte 0 of 20"), Error);
  inflow.received(frame_at(0, 4));
  CHECK_THROWS_AS(inflow.room_for(frame_at(0, 4)), Error);
  CHECK_THROWS_AS(inflow.room_for(frame_at(4, 7)), Error);
  CHECK_NOTHROW(inflow.room_for(frame_at(4, 6)));
  CHECK(Inflow().complete());
}

TEST_CASE("what is cut into frames is what an inflow of the same places takes") {
  const std::vector<std::byte> large(net::most_frame_bytes + 5, std::byte{3}), small(2, std::byte{4});
  std::vector<std::byte> large_there(large.size()), small_there(small.size());
  Inflow inflow({std::span(large_there), std::span(small_there)});
  int frames = 0;
  cut_into_frames(7, 0, {large, small}, [&](const net::FrameHead& head, std::span<const std::byte> bytes) {
    std::ranges::copy(bytes, inflow.room_for(head).begin());
    inflow.received(head);
    ++frames;
  });
  CHECK(frames == 3);
  CHECK(inflow.complete());
  CHECK(large_there == large);
  CHECK(small_there == small);
}

}  // namespace
}  // namespace estrain::hosts
