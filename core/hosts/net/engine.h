#pragma once
// Asio, for this folder alone.

#define ASIO_STANDALONE
#define ASIO_NO_DEPRECATED
#include <asio.hpp>
#include <asio/ssl.hpp>

#include "core/hosts/net/loop.h"

namespace estrain::net {

struct Loop::Engine {
  asio::io_context context{1};
  asio::executor_work_guard<asio::io_context::executor_type> works{context.get_executor()};
};

}  // namespace estrain::net
