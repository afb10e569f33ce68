// The stream between hosts: any bytes, cut according to the first byte. The decoder's output fits the memory given by
// the sink, and no byte is lost; a valid greeting is valid again after encoding.
#include <algorithm>
#include <cstring>
#include <vector>

#include "core/hosts/net/frame.h"
#include "core/hosts/net/greeting.h"
#include "tests/fuzz/fuzz_input.h"

namespace estrain::fuzz {
namespace {

constexpr size_t kPlace = 4096;

class Sink : public net::FrameSink {
 public:
  std::optional<std::span<std::byte>> room_for(const net::FrameHead& head) override {
    require(head.kind >= 1 && head.kind <= net::most_kinds && head.bytes <= net::most_frame_bytes, "a head is checked");
    if (head.bytes > kPlace || head.offset > kPlace - head.bytes) throw Error(Fault::corrupt, "does not fit");
    if (head.kind == 2 && !opened) return std::nullopt;
    asked = head;
    return std::span(place).subspan(head.offset, head.bytes);
  }
  void received(const net::FrameHead& head) override {
    require(head == asked, "a frame is received where room was given");
    taken += net::frame_head_bytes + (head.packed != 0 ? head.packed : head.bytes);
    if (head.kind != 3) return;
    const std::string text(reinterpret_cast<const char*>(place.data() + head.offset), head.bytes);
    net::Greeting greeting;
    if (!accepts([&] { greeting = net::Greeting::from_json(text); })) return;
    require(net::Greeting::from_json(greeting.to_json()).host == greeting.host, "a greeting is read as it was written");
  }

  bool opened = false;
  std::vector<std::byte> place = std::vector<std::byte>(kPlace);
  net::FrameHead asked;
  size_t taken = 0;
};

void decode(const uint8_t* data, size_t size, size_t at_once) {
  Sink sink;
  net::FrameDecoder decoder(sink);
  for (size_t at = 0; at < size;) {
    if (decoder.room().empty()) {
      sink.opened = true;
      decoder.retry();
      sink.opened = false;
      continue;
    }
    const std::span<std::byte> room = decoder.room();
    const size_t n = std::min({room.size(), at_once, size - at});
    std::memcpy(room.data(), data + at, n);
    decoder.advance(n);
    at += n;
    require(sink.taken <= at, "no byte comes out that did not go in");
  }
}

}  // namespace
}  // namespace estrain::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  estrain::fuzz::accepts([&] { estrain::fuzz::decode(data + 1, size - 1, size_t{data[0]} + 1); });
  return 0;
}
