#pragma once
// JSON messages over a connection that carries only these messages.

#include <functional>
#include <string>

#include "core/base/json/json.h"
#include "core/hosts/exchange/wire.h"
#include "core/hosts/net/connection.h"

namespace estrain::hosts {

void send_message(net::Connection& connection, const Json& said);
// Hands a received message to `heard`. Throws Fault::corrupt if the text is no message, or `heard` cannot read it.
void hear_message(const std::string& text, const std::function<void(const Json&)>& heard);

class MessageLink : public net::FrameSink {
 public:
  // `closed`: the connection was lost.
  MessageLink(net::ConnectionPtr connection, std::function<void(const Json&)> heard,
              std::function<void(const Error&)> closed);
  ~MessageLink() override { connection_->close(); }
  MessageLink(const MessageLink&) = delete;

  void send(const Json& said) { send_message(*connection_, said); }
  const net::Connection& connection() const { return *connection_; }

  std::optional<std::span<std::byte>> room_for(const net::FrameHead& head) override;
  void received(const net::FrameHead& head) override;

 private:
  net::ConnectionPtr connection_;
  std::function<void(const Json&)> heard_;
  std::string text_;
};

}  // namespace estrain::hosts
