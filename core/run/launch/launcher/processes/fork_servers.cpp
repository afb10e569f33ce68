#include "core/run/launch/launcher/processes/fork_servers.h"

#include <fcntl.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/run/launch/launcher/processes/processes.h"

namespace estrain::launch {

void ForkServers::begin(const Device& device, const spec::JobSection& job, const SharedDescriptors& shared) {
  Environment environment = device_environment(device, job, own_environment());
  if (std::ranges::find(servers_, environment, &decltype(servers_)::value_type::first) != servers_.end()) return;
  ChildOptions options;
  options.arguments = {own_executable(), "fork-server",
                       "--spec",         std::to_string(shared.spec),
                       "--library",      std::to_string(shared.library)};
  options.inherited = {shared.spec};
  options.same_program = true;
  options.environment = environment;
  options.ignored_signals = stop_signals();
  if (shared.library >= 0) options.inherited.push_back(shared.library);
  // The libraries' words have no reader: if loading fails, workers start by exec and log the error.
  const UniqueFd nowhere(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  options.output_descriptor = nowhere.get();
  ForkServer server;
  try {
    server = ForkServer::start(std::move(options));
  } catch (const Error&) {  // no descriptor or process is left: the worker's own start will tell
  }
  servers_.emplace_back(std::move(environment), std::move(server));
}

ChildProcess ForkServers::start(const ChildOptions& worker, int patience_ms) {
  const auto at = std::ranges::find(servers_, worker.environment, &decltype(servers_)::value_type::first);
  if (at != servers_.end() && at->second.wait_until_ready(patience_ms)) {
    if (std::optional<ChildProcess> copy = at->second.fork(worker)) return std::move(*copy);
  }
  return ChildProcess::start(worker);
}

std::vector<ForkServers::Note> ForkServers::notes() const {
  std::vector<Note> notes;
  for (const auto& [environment, server] : servers_) {
    const std::optional<ForkServer::Note> note = server.note();
    if (!note) continue;
    Note& added = notes.emplace_back(Note{{}, *note});
    for (const auto& [name, value] : environment) added.environment.insert(added.environment.end(), {name, value});
  }
  return notes;
}

void ForkServers::adopt(const std::vector<Note>& notes) {
  for (const Note& note : notes) {
    Environment environment;
    for (size_t i = 0; i + 1 < note.environment.size(); i += 2)
      environment.emplace_back(note.environment[i], note.environment[i + 1]);
    servers_.emplace_back(std::move(environment), ForkServer::adopt(note.server));
  }
}

}  // namespace estrain::launch
