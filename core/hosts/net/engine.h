#pragma once
// Asio, for this folder alone.

#define ASIO_STANDALONE
#define ASIO_NO_DEPRECATED
#include <asio.hpp>
#include <asio/ssl.hpp>
#include <memory>
#include <optional>

#include "core/hosts/net/loop.h"
#include "core/hosts/net/secrecy/key.h"

namespace estrain::net {

struct Loop::Engine {
  asio::io_context context{1};
  asio::executor_work_guard<asio::io_context::executor_type> works{context.get_executor()};

  // OpenSSL's settings for outgoing connections. The connections share them: OpenSSL keeps a table of all algorithms
  // for each settings.
  struct Outgoing {
    SharedKey key;
    std::shared_ptr<asio::ssl::context> settings;
  };
  std::optional<Outgoing> outgoing;  // of the newest connection
};

}  // namespace estrain::net
