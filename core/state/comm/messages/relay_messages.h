#pragma once
// The messages between the launcher and its relay, which stands between the launcher and the workers on other hosts
// (core/hosts/relay.cpp).
//
// The launcher sends a RelayCall for each worker, with two descriptors beside the call: the ends of two sockets
// (message_socket.h). On the first, orders and reports pass as they do to a worker of this host. The second is the
// worker's life line: the relay sends a RelayedEnd once the worker has ended, and closes the line. If the launcher
// shuts down its own direction of the line, or closes the first socket, the worker is killed.

#include <cstdint>
#include <string>

#include "core/base/json/fields.h"
#include "core/state/comm/messages/worker_options.h"

namespace estrain::comm {

inline constexpr size_t kLargestRelayCall = 64 * 1024;  // bytes

struct RelayCall {
  std::string host;
  int64_t id = 0;         // of the worker
  WorkerOptions options;  // with a device of the host

  ESTRAIN_FIELDS(host, id, options)
};

struct RelayedEnd {
  static constexpr std::string_view name = "ended";
  bool signaled = false;
  int code = 0;                   // the exit status, or the signal
  int64_t peak_memory_bytes = 0;  // largest resident set; 0: unknown

  static constexpr bool is_complete = true;
  ESTRAIN_FIELDS(signaled, code, peak_memory_bytes)
};

}  // namespace estrain::comm
