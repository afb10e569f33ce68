#include "core/hosts/net/frame.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/hosts/net/packing/packed_floats.h"

namespace estrain::net {
namespace {

// Room for one payload of each kind up to 8; kind 7 has none until `opened`.
class Shelf : public FrameSink {
 public:
  std::optional<std::span<std::byte>> room_for(const FrameHead& head) override {
    if (head.kind > 8) throw Error::make(Fault::corrupt, "kind {} is not wanted here", head.kind);
    if (head.kind == 7 && !opened) return std::nullopt;
    bytes.resize(head.bytes);
    return std::span(bytes);
  }
  void received(const FrameHead& head) override {
    heads.push_back(head);
    texts.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }

  void arrives(const FrameHead&, size_t part) override { parts.push_back(part); }

  bool opened = false;
  std::vector<size_t> parts;  // of payloads, before they were complete
  std::vector<std::byte> bytes;
  std::vector<FrameHead> heads;
  std::vector<std::string> texts;
};

std::string frame(const FrameHead& head, const std::string& payload) {
  const EncodedHead encoded = encode(head);
  return std::string(reinterpret_cast<const char*>(encoded.data()), encoded.size()) + payload;
}

// Returns how many bytes were taken.
size_t feed(FrameDecoder& decoder, const std::string& stream, size_t at_once) {
  size_t taken = 0;
  while (taken < stream.size()) {
    const std::span<std::byte> room = decoder.room();
    const size_t n = std::min({at_once, room.size(), stream.size() - taken});
    if (n == 0) return taken;
    std::memcpy(room.data(), stream.data() + taken, n);
    decoder.advance(n);
    taken += n;
  }
  return taken;
}

TEST_CASE("a head says how its payload goes, and its kind is the same each way") {
  for (const Way way : {Way::tls, Way::sealed, Way::clear}) {
    const FrameHead head = {.kind = most_kinds, .bytes = 7, .number = 8, .offset = 9, .way = way};
    CHECK(decode(encode(head)) == head);
    CHECK_THROWS_AS(decode(encode({.kind = most_kinds + 1, .way = way})), Error);
    CHECK_THROWS_AS(decode(encode({.kind = 0, .way = way})), Error);
    Shelf shelf;
    FrameDecoder decoder(shelf);
    const std::string bytes = frame({.kind = 5, .bytes = 3, .way = way}, "abc");
    for (size_t at = 0; at < bytes.size(); ++at) {
      CHECK(decoder.way() == (at < frame_head_bytes ? Way::tls : way));
      decoder.room()[0] = static_cast<std::byte>(bytes[at]);
      decoder.advance(1);
    }
    CHECK(decoder.way() == Way::tls);
    CHECK(shelf.texts == std::vector<std::string>{"abc"});
  }
  EncodedHead both = encode({.kind = 5, .way = Way::sealed});
  both[3] |= std::byte{0x80};
  CHECK_THROWS_WITH_AS(decode(both), "a frame whose payload goes two ways", Error);
}

TEST_CASE("the parts of a payload are told as they come") {
  Shelf shelf;
  FrameDecoder decoder(shelf);
  const std::string bytes = frame({.kind = 5, .bytes = 7}, "abcdefg") + frame({.kind = 5, .bytes = 2}, "hi");
  CHECK(feed(decoder, bytes, 3) == bytes.size());
  CHECK(shelf.parts == std::vector<size_t>{3, 6});
  CHECK(shelf.texts == std::vector<std::string>{"abcdefg", "hi"});
}

TEST_CASE("a head survives the wire") {
  const FrameHead head = {3, most_frame_bytes, 0x0123456789abcdef, UINT64_MAX};
  CHECK(decode(encode(head)) == head);
  CHECK(static_cast<int>(encode(head)[4]) == 0);  // little-endian
  CHECK(static_cast<int>(encode(head)[6]) == 0x10);
}

TEST_CASE("what is no frame is refused before memory is taken") {
  CHECK_THROWS_WITH_AS(decode(encode({0, 0, 0, 0})), "a frame of kind 0, which there is not", Error);
  CHECK_THROWS_AS(decode(encode({most_kinds + 1, 0, 0, 0})), Error);
  CHECK_THROWS_AS(decode(encode({1, most_frame_bytes + 1, 0, 0})), Error);
  CHECK_NOTHROW(decode(encode({most_kinds, most_frame_bytes, 0, 0})));
}

TEST_CASE("frames come out whole wherever the stream is cut") {
  const std::string stream = frame({1, 5, 10, 0}, "hello") + frame({2, 0, 11, 7}, "") + frame({8, 3, 12, 0}, "abc");
  for (size_t at_once = 1; at_once <= stream.size(); ++at_once) {
    CAPTURE(at_once);
    Shelf shelf;
    FrameDecoder decoder(shelf);
    REQUIRE(feed(decoder, stream, at_once) == stream.size());
    CHECK(shelf.texts == std::vector<std::string>{"hello", "", "abc"});
    CHECK(shelf.heads[1] == FrameHead{2, 0, 11, 7});
  }
}

TEST_CASE("a packed payload comes out as it was, wherever the stream is cut; one that was changed is refused") {
  std::vector<float> floats(2000);
  for (size_t i = 0; i < floats.size(); ++i) floats[i] = 1e-3F * static_cast<float>(i);
  const std::string text(reinterpret_cast<const char*>(floats.data()), floats.size() * sizeof(float));
  FloatPacker packer;
  const auto packed = packer.pack(std::as_bytes(std::span(floats)), true);
  REQUIRE(!packed.empty());
  const FrameHead head = {.kind = 1, .bytes = 8000, .packed = static_cast<uint32_t>(packed.size())};
  CHECK(decode(encode(head)) == head);
  CHECK_THROWS_AS(decode(encode({.kind = 1, .bytes = 8000, .packed = 8000})), Error);
  const std::string bytes(reinterpret_cast<const char*>(packed.data()), packed.size());
  const std::string stream = frame(head, bytes) + frame({1, 5, 10, 0}, "hello");
  for (const size_t at_once : {1, 7, 1000, 100'000}) {
    Shelf shelf;
    FrameDecoder decoder(shelf);
    REQUIRE(feed(decoder, stream, at_once) == stream.size());
    CHECK(shelf.texts == std::vector<std::string>{text, "hello"});
  }
  Shelf shelf;
  FrameDecoder decoder(shelf);
  CHECK_THROWS_WITH_AS(feed(decoder, frame(head, '\2' + std::string(bytes.size() - 1, 'x')), 1000),
                       "packed floats that cannot be unpacked", Error);
  CHECK(shelf.heads.empty());
}

TEST_CASE("a frame waits until there is room, and nothing overtakes it") {
  const std::string stream = frame({7, 2, 1, 0}, "ab") + frame({1, 1, 2, 0}, "c");
  Shelf shelf;
  FrameDecoder decoder(shelf);
  CHECK(feed(decoder, stream, 1000) == frame_head_bytes);
  decoder.retry();
  CHECK(decoder.room().empty());
  shelf.opened = true;
  decoder.retry();
  CHECK(feed(decoder, stream.substr(frame_head_bytes), 1000) == stream.size() - frame_head_bytes);
  CHECK(shelf.texts == std::vector<std::string>{"ab", "c"});
}

TEST_CASE("what the sink refuses is not read") {
  Shelf shelf;
  FrameDecoder decoder(shelf);
  CHECK_THROWS_WITH_AS(feed(decoder, frame({9, 1, 0, 0}, "x"), 1000), "kind 9 is not wanted here", Error);
  CHECK(shelf.heads.empty());
}

}  // namespace
}  // namespace estrain::net
