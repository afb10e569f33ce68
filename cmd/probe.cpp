// A process that tries one mini-batch of a job, on behalf of check and train, or times the blocks of its network, on
// behalf of plan.

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

// Calls the library's function `name`, which fills in an answer.
template <typename Answer>
Answer answer_of(const char* name, train::ProbeSetup& setup) {
  Answer answer;
  reinterpret_cast<void (*)(train::ProbeSetup*, Answer*)>(worker_library_function(name))(&setup, &answer);
  return answer;
}

// Reads the data in the background. Does not return for a module in Python: the user's Python does `task`.
void set_up(train::ProbeSetup& setup, const std::string& spec, const comm::PythonProbe& task) {
  setup.spec = spec::parse_text(spec, "the job's spec");
  setup.device = task.device;
  if (setup.spec.model.is_python()) become_users_python(setup.spec, task, -1);
  setup.libraries = library_folder();
  setup.data = std::async(std::launch::async, [&spec = setup.spec] { return data::open_job(spec); });
}

comm::ProbeAnswer answer_to(const comm::TryMiniBatch& request, const comm::ProbesOwnChannel& asker) {
  train::ProbeSetup setup;
  setup.measures = request.measures;
  setup.foretells = request.foretells;
  setup.factors = request.factors;
  setup.one_sample = request.one_sample;
  set_up(setup, request.spec,
         {asker.descriptor(), request.measures, request.foretells, request.device, std::nullopt, request.one_sample});
  return answer_of<comm::ProbeReport>("estrain_probe", setup);
}

comm::ProbeAnswer answer_to(const comm::TimeBlocks& request, const comm::ProbesOwnChannel& asker) {
  train::ProbeSetup setup;
  setup.seconds = request.seconds;
  set_up(setup, request.spec, {asker.descriptor(), false, false, request.device, request.seconds, false});
  return answer_of<comm::BlockTimes>("estrain_time_blocks", setup);
}

int probe(int socket) {
  comm::ProbesOwnChannel asker{comm::MessageSocket(UniqueFd(socket))};
  comm::ProbeRequest request;
  if (asker.receive(&request, kForever) == comm::Received::message) {
    comm::answer_with(asker,
                      [&] { return std::visit([&](const auto& asked) { return answer_to(asked, asker); }, request); });
  }
  leave(0);
}

}  // namespace

void add_probe(CLI::App& app, Action& chosen) {
  CLI::App* verb =
      app.add_subcommand("probe", "Tries one mini-batch or times blocks, started by check, train and plan")->group("");
  auto socket = std::make_shared<int>(-1);
  verb->add_option("--socket", *socket)->required();
  verb->callback([socket, &chosen] { chosen = [socket] { return probe(*socket); }; });
}

}  // namespace estrain::cmd
