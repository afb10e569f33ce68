#include "core/hosts/courier/courier_messages.h"

namespace estrain::hosts {

Json to_field(const BytesBySender& senders) {
  Json json = Json::object();
  for (const auto& [sender, bytes] : senders.bytes) json[sender] = bytes;
  return json;
}

void from_field(const Json& json, BytesBySender& senders) {
  if (!json.is_object()) codec::refuse_message("not bytes by sender");
  senders.bytes.clear();
  for (const auto& [sender, bytes] : json.items()) codec::from_field(bytes, senders.bytes[sender]);
}

}  // namespace estrain::hosts
