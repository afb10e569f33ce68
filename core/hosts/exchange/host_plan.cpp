#include "core/hosts/exchange/host_plan.h"

#include "core/base/error.h"

namespace estrain::hosts {
namespace {

constexpr size_t kMostHosts = 4096;

}  // namespace

int64_t HostPlan::workers_before(size_t host) const {
  int64_t workers = 0;
  for (size_t before = 0; before < host; ++before) workers += std::ssize(hosts[before].workers);
  return workers;
}

void HostPlan::require_sound() const {
  if (hosts.empty() || hosts.size() > kMostHosts || own >= hosts.size())
    throw Error(Fault::corrupt, "plan of a stage: no such host");
  if (stage == 0 || stage >= most_stages || step < 0 || step >= most_steps || evaluation_batch < 1)
    throw Error(Fault::corrupt, "plan of a stage: a number is out of bounds");
  VirtualRank next(0);
  for (const HostShare& host : hosts) {
    for (const EstRange& ests : host.workers) {
      if (ests.begin != next || ests.end <= ests.begin)
        throw Error(Fault::corrupt, "plan of a stage: the ranges of ESTs do not follow each other");
      next = ests.end;
    }
    if (host.workers.empty()) throw Error(Fault::corrupt, "plan of a stage: a host without a worker");
  }
}

}  // namespace estrain::hosts
