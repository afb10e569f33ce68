#include "core/pool/hosts/run_agents.h"

#include <algorithm>

namespace estrain::pool {
namespace {

constexpr double kPause = 3;  // s

const RunAgents::Wanted* find(const std::vector<RunAgents::Wanted>& wanted, int64_t job) {
  const auto at = std::ranges::find(wanted, job, &RunAgents::Wanted::job);
  return at == wanted.end() ? nullptr : &*at;
}

bool names(const RunAgents::Wanted& wanted, const std::string& host) {
  return std::ranges::find(wanted.hosts, host) != wanted.hosts.end();
}

}  // namespace

void RunAgents::tend(const std::vector<Wanted>& wanted, double now) {
  std::set<std::pair<int64_t, std::string>> there;
  for (const Agents::Placed& one : agents_.tasks()) {
    if (one.task.kind != kRunAgent) continue;
    there.insert({one.task.job, one.host});
    const Wanted* job = find(wanted, one.task.job);
    const bool stays =
        one.leads || (job != nullptr && (job->is_leaderless || job->leader == one.task.id || names(*job, one.host)));
    if (!stays) agents_.drop(one.host, one.task.id);
  }
  for (const Wanted& job : wanted) {
    const auto ended = ended_.find({job.job, job.run});
    if (job.is_leaderless || (ended != ended_.end() && now < ended->second + kPause)) continue;
    for (const std::string& host : job.hosts) {
      if (there.contains({job.job, host}) || !agents_.is_member(host)) continue;
      agents_.start(host, {.id = {},
                           .job = job.job,
                           .kind = std::string(kRunAgent),
                           .run = job.run,
                           .words = {"agent", "--run", job.run, "--name", host},
                           .log = job.log});
    }
  }
  std::erase_if(ended_, [&](const auto& entry) { return now > entry.second + kPause; });
}

bool RunAgents::listen(const Wanted& wanted) const {
  const auto tasks = agents_.tasks_of(wanted.job);
  return std::ranges::all_of(wanted.hosts, [&](const std::string& host) {
    return std::ranges::any_of(tasks, [&](const Agents::Placed& one) {
      return one.host == host && one.task.kind == kRunAgent && one.listens;
    });
  });
}

}  // namespace estrain::pool
