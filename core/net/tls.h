#pragma once
// TLS 1.3 by a pre-shared key: OpenSSL's settings, for this folder alone.

#include "core/net/engine.h"
#include "core/net/secrecy/key.h"

namespace estrain::net {

enum class Side { client, server };
// The key lives in the context.
asio::ssl::context tls_context(const Key& key, Side side);

}  // namespace estrain::net
