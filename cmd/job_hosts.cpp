#include "cmd/job_hosts.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <sstream>

#include "cmd/hosts_library.h"
#include "core/base/files/memory_file.h"
#include "core/base/files/run_files.h"
#include "core/base/process/child_process.h"
#include "core/base/process/host_name.h"
#include "core/job/placement/device.h"
#include "core/job/spec/parsing/parse.h"
#include "core/state/run_directory/run_directory.h"

namespace estrain::cmd {
namespace {

constexpr std::chrono::seconds kPatienceWithSlurm{10};

std::vector<std::string> nodes_of_allocation(const std::string& option) {
  const std::string list = environment_variable("SLURM_JOB_NODELIST").value_or("");
  if (list.empty())
    throw Error::make(Fault::usage, "{} slurm: this process is in no Slurm allocation (SLURM_JOB_NODELIST is not set)",
                      option)
        .advise(option == "--hosts"
                    ? "submit it with sbatch (examples/slurm/train-nodes.sh), or name the hosts: --hosts nodeB,nodeC"
                    : "submit it with sbatch (examples/slurm/pool.sh), or start agents by hand: estrain agent --pool");
  const UniqueFd answer = memory_file("estrain-scontrol", "");
  ChildOptions options;
  options.arguments = {"/usr/bin/env", "scontrol", "show", "hostnames", list};
  options.output_descriptor = answer.get();
  ChildProcess process = ChildProcess::start(options);
  ChildEnd end;
  const bool ended = process.wait_for(kPatienceWithSlurm, &end);
  if (!ended) process.signal(SIGKILL);
  std::istringstream text(read_memory_file(answer.get()));
  if (!ended || end.signaled || end.code != 0)
    throw Error::make(Fault::io, "{} slurm: scontrol does not tell the names in \"{}\": {}", option, list, text.str())
        .advise("is Slurm at work? `scontrol show hostnames` must print the nodes of the allocation");
  std::vector<std::string> names;
  for (std::string name; text >> name;) names.push_back(name);
  return names;
}

std::vector<std::string> words_of(const std::string& list) {
  std::vector<std::string> names;
  std::istringstream text(list);
  for (std::string name; std::getline(text, name, ',');) names.push_back(name);
  return names;
}

Error no_agents(const launch::StartRequest& request, const std::string& run, const Json& missing, double seconds) {
  std::vector<std::string> reasons;
  for (const Json& row : missing)
    reasons.push_back(fmt::format("{}: {}", row.value("host", ""), row.value("error", "")));
  return Error::make(Fault::peer, "no agent answers within {} s on {} of the hosts: {}", seconds, missing.size(),
                     fmt::join(reasons, "; "))
      .advise(fmt::format("start one there: estrain agent {} --name {}; or wait longer: --wait-hosts SECONDS",
                          request.listen.empty() ? "--run " + run
                                                 : fmt::format("--join {} --key-file FILE, a copy of {}",
                                                               request.listen, RunFiles(run).network_key()),
                          missing.front().value("host", "")));
}

// Returns network.interface of the given spec, or of the run that resumes.
std::string interface_of(const launch::StartRequest& request, const std::string& run) {
  if (request.listen.empty()) return "";
  const std::string spec = request.spec_path.empty() ? run_directory::RunDirectory(run).spec() : request.spec_path;
  const auto given = request.spec_path.empty() && !std::filesystem::exists(spec)
                         ? spec::JobSpec()
                         : spec::parse_file(spec, request.overrides);
  return given.network.interface;
}

}  // namespace

std::string own_host_name() {
  const std::string in_slurm = environment_variable("SLURMD_NODENAME").value_or("");
  return in_slurm.empty() ? host_name() : in_slurm;
}

std::vector<std::string> named_hosts(const std::string& list, const std::string& option) {
  std::vector<std::string> names = list == "slurm" ? nodes_of_allocation(option) : words_of(list);
  for (const std::string& name : names) {
    if (!placement::parse_device(name + "/cpu"))
      throw Error::make(Fault::usage, "{} {}: \"{}\" is no host's name", option, list, name)
          .advise("give a list such as nodeB,nodeC, or slurm");
    if (std::ranges::count(names, name) > 1)
      throw Error::make(Fault::usage, "{} {}: {} stands there twice", option, list, name);
  }
  return names;
}

HostsSeen look_at_hosts(hosts::LookSetup look) {
  if (look.names.empty() && look.listen.empty()) return {Json::array(), Json::array()};
  if (look.names.empty()) look.seconds = 0;
  reinterpret_cast<void (*)(hosts::LookSetup*)>(hosts_library_function("estrain_look_at_agents"))(&look);
  return {look.rows, look.own_data};
}

void wait_for_hosts(const std::string& list, double seconds, launch::StartRequest& request) {
  if (request.own_host.empty() && !list.empty()) request.own_host = own_host_name();
  std::vector<std::string> names = list.empty() ? std::vector<std::string>{} : named_hosts(list);
  std::erase(names, request.own_host);
  if (names.empty() && request.listen.empty()) return;
  const std::string run = launch::run_directory_of(request);
  if (!names.empty()) fmt::print(stderr, "waits for the agents of {}, at most {} s\n", fmt::join(names, ", "), seconds);
  Json missing = Json::array();
  const HostsSeen seen = look_at_hosts({.run = run,
                                        .names = names,
                                        .seconds = seconds,
                                        .listen = request.listen,
                                        .interface = interface_of(request, run),
                                        .own = request.own_host});
  for (const Json& row : seen.rows) {
    if (row.contains("error")) {
      missing.push_back(row);
    } else {
      request.hosts.push_back({row.value("host", ""), row.value("cores", INT64_C(1))});
    }
  }
  if (!missing.empty()) throw no_agents(request, run, missing, seconds);
}

}  // namespace estrain::cmd
