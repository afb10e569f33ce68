#include "core/hosts/exchange/message_link.h"

#include <utility>

namespace estrain::hosts {

void send_json(net::Connection& connection, const Json& said) {
  std::string text = said.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > most_message_bytes)
    throw Error::make(Fault::infeasible, "a message of {} bytes to another host; at most {} fit", text.size(),
                      most_message_bytes);
  const net::FrameHead head = {message, static_cast<uint32_t>(text.size()), 0, 0};
  connection.send(head, std::move(text));
}

Json json_of_message(const std::string& text) {
  Json said = parse_json(text, "message of another host");
  if (!said.is_object()) throw Error(Fault::corrupt, "message of another host: not an object");
  return said;
}

void refuse_foreign(const Error& why) {
  throw Error::make(Fault::corrupt, "message of another host: {}", why.message());
}

TextLink::TextLink(net::ConnectionPtr connection, std::function<void(const std::string&)> heard,
                   std::function<void(const Error&)> closed)
    : connection_(std::move(connection)), heard_(std::move(heard)) {
  connection_->start(*this, std::move(closed));
}

std::optional<std::span<std::byte>> TextLink::room_for(const net::FrameHead& head) {
  if (head.kind != message) throw Error::make(Fault::corrupt, "a frame of kind {} among messages", head.kind);
  text_.resize(head.bytes);
  return std::as_writable_bytes(std::span(text_));
}

}  // namespace estrain::hosts
