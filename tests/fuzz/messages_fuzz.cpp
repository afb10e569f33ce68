// Messages between the launcher and its processes: packets of any bytes, each ended by a zero byte in the input. A
// received message is received again when it is forwarded.
#include <sys/socket.h>

#include "core/base/clock.h"
#include "core/state/comm/messages/message_socket.h"
#include "tests/fuzz/fuzz_input.h"

namespace estrain::fuzz {
namespace {

using comm::MessageSocket;
using Received = MessageSocket::Received;

void receive_packet(MessageSocket& ours, MessageSocket& theirs, std::string_view packet) {
  if (packet.empty()) return;  // an empty packet looks like end of file
  require(::send(theirs.descriptor(), packet.data(), packet.size(), 0) > 0, "a packet is sent");
  Json message;
  Received received = Received::nothing;
  if (!accepts([&] { received = ours.receive(&message, 0ms); })) return;
  require(received == Received::message, "a packet is a message or an error");
  const std::string text = message.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > 128 * 1024) return;
  require(ours.send(message), "a message can be sent");
  Json again;
  require(theirs.receive(&again, 0ms) == Received::message, "and arrives");
  require(again.dump() == text, "as it was");
}

}  // namespace
}  // namespace estrain::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto [ours, theirs] = estrain::comm::MessageSocket::pair();
  std::string_view input = estrain::fuzz::text_of(data, size);
  while (!input.empty()) {
    const size_t end = std::min(input.find('\0'), input.size());
    estrain::fuzz::receive_packet(ours, theirs, input.substr(0, end));
    input.remove_prefix(std::min(input.size(), end + 1));
  }
  return 0;
}
