#pragma once
// TLS 1.3 by a pre-shared key: OpenSSL's settings, for this folder alone.

#include <string>

#include "core/hosts/net/engine.h"
#include "core/hosts/net/secrecy/key.h"

namespace estrain::net {

enum class Side { client, server };
// The key lives in the context. A session of it has a std::string as its application's data (SSL_set_app_data): the
// identity of the session, which the client sends, and the server has then.
asio::ssl::context tls_context(const Key& key, Side side);

// Whose connection it is, to whom, in which run. All three go into the session's key. The identity names them to those
// who have the run's key, and to nobody else.
struct Ends {
  std::string run, from, to;
};
std::string identity_of(asio::ssl::context& context, const Ends& ends);

}  // namespace estrain::net
