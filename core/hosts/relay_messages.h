#pragma once
// The messages between the relay on the coordinator's host (relay.cpp) and the agent of a worker's host
// (agent_workers.h), on one connection for each worker. Orders and reports pass between the launcher and the worker.

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "core/base/json/fields.h"
#include "core/state/comm/messages/relay_messages.h"
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

using RelayMessage = std::variant<StartRemoteWorker, RelayedOrder>;
using AgentMessage = std::variant<RelayedReport, comm::RelayedEnd>;

}  // namespace estrain::hosts
