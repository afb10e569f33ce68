// A process that tries one mini-batch of a job, on behalf of check and train.

#include "core/engine/train/probe.h"

#include <csignal>
#include <memory>

#include "cmd/commands.h"
#include "cmd/users_python.h"
#include "cmd/worker_library.h"
#include "core/data/job_data.h"
#include "core/job/spec/parsing/parse.h"
#include "core/state/comm/messages/probe_messages.h"

namespace estrain::cmd {
namespace {

using Probe = void (*)(train::ProbeSetup*, comm::ProbeReport*);

comm::ProbeReport report_of(const comm::TryMiniBatch& request, const comm::ProbesOwnChannel& asker) {
  train::ProbeSetup setup;
  setup.spec = spec::parse_text(request.spec, "the job's spec");
  setup.measures = request.measures;
  setup.foretells = request.foretells;
  setup.device = request.device;
  if (setup.spec.model.is_python()) {
    const comm::PythonProbe task{asker.descriptor(), setup.measures, setup.foretells, setup.device};
    become_users_python(setup.spec, task, -1);
  }
  setup.libraries = library_folder();
  setup.data = std::async(std::launch::async, [&spec = setup.spec] { return data::open_job(spec); });
  comm::ProbeReport report;
  reinterpret_cast<Probe>(worker_library_function("estrain_probe"))(&setup, &report);
  return report;
}

int probe(int socket) {
  comm::ProbesOwnChannel asker{comm::MessageSocket(UniqueFd(socket))};
  comm::ProbeRequest request;
  if (asker.receive(&request, kForever) == comm::Received::message)
    comm::answer_with(asker, [&] { return report_of(std::get<comm::TryMiniBatch>(request), asker); });
  leave(0);
}

}  // namespace

void add_probe(CLI::App& app, Action& chosen) {
  CLI::App* verb = app.add_subcommand("probe", "Tries one mini-batch, started by check and train")->group("");
  auto socket = std::make_shared<int>(-1);
  verb->add_option("--socket", *socket)->required();
  verb->callback([socket, &chosen] { chosen = [socket] { return probe(*socket); }; });
}

}  // namespace estrain::cmd
