#pragma once
// The messages between a proxy, which stands in for a worker (proxy.cpp), and the agent of the worker's host
// (agent_workers.h). Orders and reports pass between the launcher and the worker.

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "core/base/json/fields.h"
#include "core/state/comm/messages/worker_messages.h"
#include "core/state/comm/messages/worker_options.h"

namespace estrain::hosts {

struct StartRemoteWorker {
  static constexpr std::string_view name = "start";
  int64_t id = 0;
  std::string spec;  // TOML
  comm::WorkerOptions options;

  static constexpr bool is_complete = true;
  ESTRAIN_FIELDS(id, spec, options)
};
struct RelayedOrder {
  static constexpr std::string_view name = "order";
  comm::WorkerOrder order;

  static constexpr bool is_complete = true;
  ESTRAIN_FIELDS(order)
};

struct RelayedReport {
  static constexpr std::string_view name = "report";
  comm::WorkerReport report;

  static constexpr bool is_complete = true;
  ESTRAIN_FIELDS(report)
};
struct RemoteWorkerEnded {
  static constexpr std::string_view name = "ended";
  bool signaled = false;
  int code = 0;  // the exit status, or the signal

  static constexpr bool is_complete = true;
  ESTRAIN_FIELDS(signaled, code)
};

using ProxyMessage = std::variant<StartRemoteWorker, RelayedOrder>;
using AgentMessage = std::variant<RelayedReport, RemoteWorkerEnded>;

}  // namespace estrain::hosts
