#pragma once
// Messages over a connection. Each channel between hosts has a header that lists the channel's messages: each a struct
// (core/base/json/codec.h), in JSON with its name under "is". One end of a channel says `Out` and hears `In`, each a
// std::variant of such messages.

#include <functional>
#include <string>
#include <utility>

#include "core/base/json/codec.h"
#include "core/hosts/exchange/wire.h"
#include "core/hosts/net/connection.h"

namespace estrain::hosts {

// Throws Fault::infeasible if the message is too long for a frame.
void send_json(net::Connection& connection, const Json& said);
// Both throw Fault::corrupt if the text is no message, or none of the channel's messages.
Json json_of_message(const std::string& text);
[[noreturn]] void refuse_foreign(const Error& why);

template <typename Out>
void send_message(net::Connection& connection, const Out& said) {
  send_json(connection, codec::encode(said));
}

template <typename In>
In read_message(const std::string& text) {
  const Json said = json_of_message(text);
  try {
    return codec::decode<In>(said);
  } catch (const Error& why) {
    refuse_foreign(why);
  }
}

// Where the text of each message goes, on a connection that carries only messages.
class TextLink : public net::FrameSink {
 public:
  TextLink(net::ConnectionPtr connection, std::function<void(const std::string&)> heard,
           std::function<void(const Error&)> closed);
  ~TextLink() override { connection_->close(); }
  TextLink(const TextLink&) = delete;

  net::Connection& connection() const { return *connection_; }

  std::optional<std::span<std::byte>> room_for(const net::FrameHead& head) override;
  void received(const net::FrameHead&) override { heard_(text_); }

 private:
  net::ConnectionPtr connection_;
  std::function<void(const std::string&)> heard_;
  std::string text_;
};

template <typename Out, typename In>
class MessageLink {
 public:
  // `closed`: the connection was lost.
  MessageLink(net::ConnectionPtr connection, std::function<void(const In&)> heard,
              std::function<void(const Error&)> closed)
      : link_(
            std::move(connection),
            [heard = std::move(heard)](const std::string& text) { heard(read_message<In>(text)); }, std::move(closed)) {
  }

  void send(const Out& said) { send_message(link_.connection(), said); }
  const net::Connection& connection() const { return link_.connection(); }

 private:
  TextLink link_;
};

}  // namespace estrain::hosts
