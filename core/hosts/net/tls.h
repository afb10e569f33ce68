#pragma once
// TLS 1.3 by a pre-shared key: OpenSSL's settings, for this folder alone.

#include <string>

#include "core/hosts/net/engine.h"
#include "core/hosts/net/secrecy/key.h"

namespace estrain::net {

enum class Side { client, server };
// The context holds the key. A session of the context has a std::string as its application's data (SSL_set_app_data):
// the identity of the session. The client sends the identity, and the server then has it.
asio::ssl::context tls_context(const SharedKey& key, Side side);

// The two ends and the run of a connection. All three go into the session's key. The identity names them only to a
// process with the run's key.
struct Ends {
  std::string run, from, to;
};
std::string identity_of(asio::ssl::context& context, const Ends& ends);

}  // namespace estrain::net
