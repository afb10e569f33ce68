#pragma once
// The fork servers of a run (core/base/process/fork_server.h): one for each environment in which workers of this host
// start. The environment differs by kind of device. Each server has loaded LibTorch before a worker is lost or a device
// is added.

#include <string>
#include <utility>
#include <vector>

#include "core/base/json/fields.h"
#include "core/base/process/fork_server.h"
#include "core/run/launch/preflight/devices.h"

namespace estrain::launch {

struct SharedDescriptors;

class ForkServers {
 public:
  // Starts the server for workers on this kind of device, unless the server runs already. The server loads the run's
  // worker library and decompresses the data of the run's spec; for a module in Python the server becomes the user's
  // Python, and imports torch. Where no server can be started, workers start by exec.
  void begin(const Device& device, const spec::JobSection& job, const SharedDescriptors& shared);

  // Starts a worker: as a copy of the server for its environment, after waiting at most `patience_ms` until the server
  // has loaded; otherwise by exec. Throws Fault::io, as ChildProcess::start.
  ChildProcess start(const ChildOptions& worker, int patience_ms);

  // A server across an exec of the launcher.
  struct Note {
    std::vector<std::string> environment;  // name, value, name, …
    ForkServer::Note server;

    ESTRAIN_FIELDS(environment, server)
  };
  std::vector<Note> notes() const;
  void adopt(const std::vector<Note>& notes);

 private:
  using Environment = std::vector<std::pair<std::string, std::string>>;  // ChildOptions::environment
  std::vector<std::pair<Environment, ForkServer>> servers_;
};

}  // namespace estrain::launch
