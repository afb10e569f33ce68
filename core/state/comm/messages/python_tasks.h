#pragma once
// The task of a user's Python, for a job whose model is a module in Python: in JSON, from the process that becomes the
// user's Python (cmd/users_python.h) to the library loaded by it (core/engine/python/enter.h).

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/base/json/codec.h"
#include "core/state/comm/messages/worker_options.h"

namespace estrain::comm {

// A path, in JSON a list of bytes: a path may have any bytes, and JSON's texts are UTF-8.
struct PathBytes {
  std::string path;
};
inline Json to_field(const PathBytes& value) {
  return std::vector<unsigned char>(value.path.begin(), value.path.end());
}
inline void from_field(const Json& json, PathBytes& value) {
  std::vector<int> bytes;
  codec::from_field(json, bytes);
  value.path.clear();
  for (const int byte : bytes) value.path.push_back(static_cast<char>(byte));
}

// Fields: those of train::WorkerSetup. WorkerOptions does not write `checkpoint` to JSON, so `checkpoint` comes beside.
struct PythonWorker {
  static constexpr std::string_view name = "worker";
  PathBytes run;  // the run's directory
  int socket = -1, memory = -1, doorbell = -1, courier = -1;
  WorkerOptions options;
  PathBytes checkpoint;
  PathBytes algorithm_store;

  ESTRAIN_FIELDS(run, socket, memory, doorbell, courier, options, checkpoint, algorithm_store)
};

// Fields: those of train::ProbeSetup.
struct PythonProbe {
  static constexpr std::string_view name = "probe";
  int socket = -1;
  bool measures = false, foretells = false;
  std::string device;
  std::optional<double> seconds;  // of timing the blocks; nothing: a mini-batch is tried
  bool one_sample = false;

  ESTRAIN_FIELDS(socket, measures, foretells, device, seconds, one_sample)
};

// A fork server (core/base/process/fork_server.h): the copies are workers, with the rest in their arguments.
struct PythonServer {
  static constexpr std::string_view name = "fork-server";
  int orders = -1;  // the socket for the workers' arguments
  PathBytes algorithm_store;

  ESTRAIN_FIELDS(orders, algorithm_store)
};

using PythonTask = std::variant<PythonWorker, PythonProbe, PythonServer>;
inline constexpr std::string_view kPythonTask = "runs";  // the key of the task's name

// The surroundings of a task, beside the task in the same object.
struct PythonSetting {
  std::string spec;            // TOML
  PathBytes libraries;         // folder of the libraries for devices
  uint64_t libtorch = 0;       // build id of estrain's own LibTorch
  uint64_t libtorch_cuda = 0;  // of its part for GPUs

  ESTRAIN_FIELDS(spec, libraries, libtorch, libtorch_cuda)
};

}  // namespace estrain::comm
