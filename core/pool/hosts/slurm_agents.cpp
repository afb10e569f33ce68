#include "core/pool/hosts/slurm_agents.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/files/files.h"

namespace estrain::pool {
namespace {

constexpr double kPauseBehindEnd = 20;  // s

}  // namespace

SlurmAgents::SlurmAgents(std::string pool, const std::vector<std::string>& nodes) : pool_(std::move(pool)) {
  for (const std::string& node : nodes) steps_[node];
}

std::vector<std::string> SlurmAgents::step_words(const std::string& pool, const std::string& node,
                                                 const std::string& cores) {
  std::vector<std::string> words = {"/usr/bin/env", "srun", "--nodes=1", "--ntasks=1", "--nodelist=" + node};
  if (!cores.empty()) words.push_back("--cpus-per-task=" + cores);
  words.insert(words.end(), {"--overlap", "--no-kill", "--kill-on-bad-exit=0", own_executable(), "agent", "--pool",
                             pool, "--name", node});
  const std::string interface = environment_variable("ESTRAIN_INTERFACE").value_or("");
  if (!interface.empty()) words.insert(words.end(), {"--interface", interface});
  return words;
}

std::string SlurmAgents::log_of(const std::string& node) const { return pool_ + "/hosts/" + node + "/agent.log"; }

std::vector<SlurmAgents::StepEnd> SlurmAgents::tend(const std::vector<std::string>& members, double now) {
  std::vector<StepEnd> ended;
  for (auto& [node, step] : steps_) {
    if (ChildEnd end; step.process.running() && step.process.wait_for(0, &end)) {
      step.not_before = now + kPauseBehindEnd;
      ended.push_back({node, fmt::format("{}, see {}", end.text(), log_of(node))});
    }
    if (step.process.running() || now < step.not_before || std::ranges::find(members, node) != members.end()) continue;
    try {
      make_folders(pool_ + "/hosts/" + node);
      ChildOptions options;
      options.arguments = step_words(pool_, node, environment_variable("SLURM_CPUS_ON_NODE").value_or(""));
      options.output = log_of(node);
      options.dies_with_parent = false;
      step.process = ChildProcess::start(options);
    } catch (const Error& error) {
      step.not_before = now + kPauseBehindEnd;
      ended.push_back({node, error.message()});
    }
  }
  return ended;
}

}  // namespace estrain::pool
