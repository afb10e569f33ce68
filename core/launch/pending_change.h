#pragma once
// What the launcher keeps of a change of its workers that is to come, and of those that were.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/launch/control_socket.h"
#include "core/launch/processes.h"

namespace estrain::launch {

// The workers, or their shares, are about to change: a user or the planner asked for it, or a worker is lost, or
// both.
struct PendingChange {
  bool asked_for = false;  // by a user or the planner
  std::optional<ClientId> client;
  std::string before;                // the devices in force when it was asked for
  std::vector<Device> devices;       // to run on
  std::vector<int64_t> workers;      // ids of those that are to serve them, -1: any; empty: any everywhere
  std::vector<WorkerProcess> added;  // started for it
  std::vector<std::string> held;     // kinds of all devices that the job has afterwards
  int64_t requested_ns = 0, requested_step = 0, warmed_ns = 0;
  double step_seconds_before = 0;
  std::string why;                    // what asked for it
  double estimated_step_seconds = 0;  // by the plan it carries out; 0: none was made
  std::string plan_reason;
  std::optional<int64_t> give_back_ns;  // monotonic: devices must be free by then
  bool keeps_devices = false;           // only shares move: no checkpoint, no new launcher
  std::optional<Json> answer;           // what the client is told beside the figures
};

// How long steps took with shares that were in force not long ago.
struct TriedShares {
  double step_seconds = 0;
  int64_t ended_ns = 0;  // monotonic
};

// How many more workers fit into memory.
struct WorkerRoom {
  int64_t workers = 0;
  std::string reason;  // in words
};

}  // namespace estrain::launch
