#pragma once
// A socket (message_socket.h) on which one side says `Out` and hears `In`, each a std::variant (base/json/codec.h).

#include <utility>

#include "core/base/json/codec.h"
#include "core/state/comm/messages/message_socket.h"

namespace estrain::comm {

template <typename Out, typename In>
class Channel {
 public:
  Channel() = default;
  explicit Channel(MessageSocket socket) : socket_(std::move(socket)) {}

  int descriptor() const { return socket_.descriptor(); }
  explicit operator bool() const { return static_cast<bool>(socket_); }
  void close() { socket_.close(); }

  // Calls MessageSocket::send() with the message's JSON.
  bool send(const Out& message) { return socket_.send(codec::encode(message)); }
  bool flush() { return socket_.flush(); }
  // MessageSocket::receive(). Throws Fault::usage where the message makes no sense.
  MessageSocket::Received receive(In* message, std::chrono::milliseconds limit) {
    Json json;
    const MessageSocket::Received received = socket_.receive(&json, limit);
    if (received == MessageSocket::Received::message) *message = codec::decode<In>(json);
    return received;
  }

 private:
  MessageSocket socket_;
};

using Received = MessageSocket::Received;

}  // namespace estrain::comm
