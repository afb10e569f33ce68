// A process that tries one mini-batch of a job, on behalf of check and train.

#include "core/train/probe.h"

#include <csignal>
#include <memory>

#include "cmd/commands.h"
#include "cmd/users_python.h"
#include "cmd/worker_library.h"
#include "core/comm/messages/message_socket.h"
#include "core/data/job_data.h"
#include "core/spec/parsing/parse.h"

namespace estrain::cmd {
namespace {

using Probe = void (*)(train::ProbeSetup*);

void answer(comm::MessageSocket& asker) {
  Json request;
  if (asker.receive(&request, -1) != comm::MessageSocket::Received::message) return;
  train::ProbeSetup setup;
  setup.spec = spec::parse_text(request.at("spec").get<std::string>(), "the job's spec");
  setup.measures = request.at("measures");
  setup.device = request.at("device");
  if (setup.spec.model.is_python()) {
    const Json refusal = {{"say", "error"}, {"fault", static_cast<int>(Fault::mismatch)}};
    become_users_python(setup.spec,
                        {{"runs", "probe"},
                         {"refusal", refusal},
                         {"socket", asker.descriptor()},
                         {"measures", setup.measures},
                         {"device", setup.device}},
                        -1);
  }
  setup.libraries = library_folder();
  setup.data = std::async(std::launch::async, [&spec = setup.spec] { return data::open_job(spec); });
  reinterpret_cast<Probe>(worker_library_function("estrain_probe"))(&setup);
  setup.report["say"] = "report";
  asker.send(setup.report);
}

int probe(int socket) {
  comm::MessageSocket asker{UniqueFd(socket)};
  try {
    answer(asker);
  } catch (const Error& error) {
    asker.send({{"say", "error"},
                {"fault", static_cast<int>(error.fault())},
                {"message", error.message()},
                {"advice", error.advice()}});
  } catch (const std::exception& error) {
    asker.send({{"say", "error"}, {"fault", static_cast<int>(Fault::bug)}, {"message", error.what()}});
  }
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
