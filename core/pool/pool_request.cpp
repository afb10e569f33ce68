#include "core/pool/pool_request.h"

#include "core/base/error.h"
#include "core/base/json/json_fields.h"
#include "core/pool/pool_directory.h"
#include "core/run/launch/control/control_socket.h"

namespace estrain::pool {
namespace {

constexpr std::string_view kVerb = "do";

template <typename... Requests>
bool is_in(std::string_view verb, const std::variant<Requests...>*) {
  return ((Requests::name == verb) || ...);
}

}  // namespace

Json encode_pool_request(const PoolRequest& request) { return codec::encode(request, kVerb); }

PoolRequest decode_pool_request(const Json& json) {
  const std::string verb = text_in(json, kVerb).value_or("");
  if (!is_in(verb, static_cast<const PoolRequest*>(nullptr)))
    throw Error::make(Fault::usage, "a pool cannot \"{}\"", verb);
  try {
    return codec::decode<PoolRequest>(json, kVerb);
  } catch (const Error& error) {
    throw error.within(fmt::format("request \"{}\"", verb));
  }
}

bool is_served(const std::string& directory) { return launch::launcher_answers(directory); }

Json answer_of_pool(const std::string& directory, const PoolRequest& request) {
  PoolDirectory(directory).require_pool();
  if (!is_served(directory)) {
    throw Error::make(Fault::usage, "{}: no daemon serves this pool", directory)
        .advise("start it: estrain pool serve " + directory);
  }
  return launch::ask_server(directory, encode_pool_request(request), std::nullopt);
}

}  // namespace estrain::pool
