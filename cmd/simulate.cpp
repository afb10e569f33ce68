#include <algorithm>
#include <charconv>
#include <memory>
#include <string>
#include <vector>

#include "cmd/commands.h"
#include "cmd/validators.h"
#include "core/base/files/files.h"
#include "core/base/files/run_files.h"
#include "core/base/json/json_text.h"
#include "core/base/process/child_process.h"
#include "core/base/visible_text.h"
#include "core/planning/profile/profile_store.h"
#include "core/planning/scheduling/policy.h"
#include "core/planning/simulate/replay.h"
#include "core/planning/simulate/report.h"
#include "core/planning/simulate/simulation.h"
#include "core/planning/simulate/world.h"

namespace estrain::cmd {
namespace {

struct SimulateArguments {
  std::string trace, world, cluster, charge = "published", run, json, html;
  std::vector<std::string> policies, workloads;
  uint64_t seed = 1;
  double round = 0;
};

double measured_charge(const std::string& run) {
  if (!run.empty()) return simulate::measured_charge(RunFiles(run).events());
  const std::string path = profile::default_store_path(own_environment());
  const profile::ProfileStore store(path, [](const std::string& sentence) { fmt::print(stderr, "{}\n", sentence); });
  if (const auto seconds = path.empty() ? std::nullopt : store.load().change_seconds()) return *seconds;
  throw Error::make(Fault::infeasible, "no change of devices has been measured on this machine ({})",
                    path.empty() ? "there is no place for profiles" : path)
      .advise("`estrain resize` a run, or name one that was resized: --run RUN");
}

simulate::Charge parse_charge(const SimulateArguments& arguments) {
  using simulate::Charge;
  const std::string& text = arguments.charge;
  if (text == "published") return {};
  if (text == "measured") return {Charge::Kind::measured, measured_charge(arguments.run)};
  double seconds = 0;
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (wrong != std::errc() || end != text.data() + text.size() || !(seconds >= 0 && seconds <= 1e6)) {
    throw Error::make(Fault::usage, "--charge {}: published, measured or seconds from 0 to 1000000", text);
  }
  return {Charge::Kind::seconds, seconds};
}

// "1.0/3", or "1.0/" for all workloads with this beginning.
bool is_chosen(const std::string& workload, const std::vector<std::string>& chosen) {
  return chosen.empty() || std::ranges::any_of(chosen, [&](const std::string& name) {
           return workload == name || (name.ends_with('/') && workload.starts_with(name));
         });
}

std::vector<std::string> choose_workloads(const simulate::World& world, const SimulateArguments& arguments) {
  std::vector<std::string> chosen;
  std::string all;
  for (const std::string& workload : world.workloads()) {
    all += (all.empty() ? "" : ", ") + workload;
    if (is_chosen(workload, arguments.workloads)) chosen.push_back(workload);
  }
  if (!chosen.empty()) return chosen;
  throw Error::make(Fault::usage, "{} has none of these workloads", arguments.trace).advise("it has " + all);
}

std::vector<simulate::SimulationResult> replay_pool(const SimulateArguments& arguments,
                                                    const simulate::Charge& charge) {
  if (!arguments.world.empty() || !arguments.cluster.empty() || !arguments.workloads.empty())
    throw Error(Fault::usage, "the trace of a pool says itself which devices and jobs there were")
        .advise("leave out --world, --cluster and --workload");
  const dispatch::PoolTrace trace = simulate::read_pool_trace(arguments.trace);
  std::vector<simulate::SimulationResult> results;
  for (const std::string& policy : arguments.policies) {
    simulate::ReplayOptions options;
    options.policy = policy;
    options.seed = arguments.seed;
    if (arguments.round > 0) options.round = arguments.round;
    if (charge.kind != simulate::Charge::Kind::published) options.lost = charge.seconds;
    options.keep_stretches = !arguments.html.empty();
    results.push_back(simulate::replay(trace, options));
  }
  return results;
}

std::vector<simulate::SimulationResult> simulate_world(const SimulateArguments& arguments,
                                                       const simulate::Charge& charge) {
  const auto world = simulate::open_world({arguments.world, arguments.trace, arguments.cluster});
  for (const std::string& note : world->notes()) fmt::print(stderr, "{}\n", visible(note));
  std::vector<simulate::SimulationResult> results;
  simulate::Limits limits;
  limits.keep_stretches = !arguments.html.empty();
  for (const std::string& name : arguments.policies) {
    for (const std::string& workload : choose_workloads(*world, arguments)) {
      const scheduling::PolicyChoice policy = scheduling::make_policy(name, arguments.seed, world->easyscale_rules());
      results.push_back(simulate::simulate(world->make(workload, policy.knowledge, charge, arguments.seed), policy,
                                           arguments.seed, limits));
    }
  }
  return results;
}

int run(const SimulateArguments& arguments) {
  for (const std::string& policy : arguments.policies)
    scheduling::make_policy(policy, arguments.seed);  // reports unknown policies early
  const simulate::Charge charge = parse_charge(arguments);
  if (charge.kind == simulate::Charge::Kind::measured && arguments.json != "-")
    fmt::print("a change of devices costs {:.3f} s, as measured\n", charge.seconds);
  const std::vector<simulate::SimulationResult> results =
      simulate::is_pool_trace(arguments.trace) ? replay_pool(arguments, charge) : simulate_world(arguments, charge);
  Json all = Json::array();
  if (!arguments.json.empty()) {
    for (const simulate::SimulationResult& result : results) all.push_back(simulate::to_json(result));
  }
  if (!arguments.html.empty()) {
    write_file_atomically(arguments.html, simulate::format_page("estrain simulate " + arguments.trace, results));
  }
  if (arguments.json == "-") {
    fmt::print("{}\n", json_text(all));
    return 0;
  }
  if (!arguments.json.empty()) write_file_atomically(arguments.json, json_text(all) + "\n");
  fmt::print("{}{}", visible(simulate::format_table(results)), visible(simulate::format_delays(results)));
  return 0;
}

}  // namespace

void add_simulate(CLI::App& app, Action& chosen) {
  CLI::App* verb = app.add_subcommand("simulate", "Try scheduling policies on a trace of jobs, in virtual time");
  auto arguments = std::make_shared<SimulateArguments>();
  verb->add_option(
          "TRACE", arguments->trace,
          "Jobs (.csv or .csv.gz; columns submit_s, duration_s, num_gpus, or the names of published traces), or what "
          "`estrain pool trace` has printed")
      ->required()
      ->check(not_empty());
  verb->add_option("--world", arguments->world, "Folder with the tables of one world")->check(not_empty());
  verb->add_option("--policy", arguments->policies,
                   "NAME or NAME:KEY=VALUE:…, several with commas:\n" + scheduling::describe_policies(false))
      ->delimiter(',')
      ->required();
  verb->add_option("--workload", arguments->workloads,
                   "Workloads of the trace to run (1.0/3; 1.0/ for all of load 1.0)")
      ->delimiter(',');
  verb->add_option("--cluster", arguments->cluster,
                   "Hosts, if the world does not define them: 552x8, or 4x8:v100,8x2:p100")
      ->check(not_empty());
  verb->add_option("--charge", arguments->charge,
                   "Cost of a change of devices for a job: published (default), measured, or seconds")
      ->check(not_empty());
  verb->add_option(
          "--run", arguments->run,
          "For --charge measured: the median of this run's changes instead of that of all runs on this machine")
      ->check(not_empty());
  verb->add_option("--round", arguments->round, "Seconds between decisions, for the trace of a pool (default 10)")
      ->check(seconds_from(0.001));
  verb->add_option("--seed", arguments->seed, "Seed for policies that choose at random (default 1)");
  verb->add_option("--json", arguments->json, "Write the results to this file as JSON (-: print them)")
      ->check(not_empty());
  verb->add_option("--html", arguments->html, "Write a page with time lines to this file")->check(not_empty());
  verb->callback([arguments, &chosen] { chosen = [arguments] { return run(*arguments); }; });
}

}  // namespace estrain::cmd
