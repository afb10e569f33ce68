#include "core/hosts/courier/beats.h"

#include <algorithm>

#include "core/base/clock.h"

namespace estrain::hosts {

std::string beats_of_own_workers(comm::JobMemory& memory, const HostPlan& plan) {
  const int64_t first = plan.workers_before(plan.own), now = monotonic_ns();
  std::string bytes;
  for (int64_t i = 0; i < std::ssize(plan.here().workers); ++i) {
    const comm::WorkerPulse& pulse = memory.pulse(WorkerRank(first + i));
    const WorkerBeat one = {.age_ns = now - pulse.beat_ns.load(),
                            .computing_ns = pulse.computing_ns.load(),
                            .mini_batches = pulse.mini_batches.load(),
                            .reading_ns = pulse.reading_ns.load(),
                            .measured_steps = pulse.measured_steps.load(),
                            .est_squares = pulse.est_squares.load(),
                            .mean_squares = pulse.mean_squares.load(),
                            .activity = static_cast<uint32_t>(pulse.activity.load()),
                            .reserved = 0};
    bytes.append(reinterpret_cast<const char*>(&one), sizeof one);
  }
  return bytes;
}

void take_beats(comm::JobMemory& memory, const HostPlan& plan, size_t host, std::span<const WorkerBeat> beats) {
  int64_t rank = plan.workers_before(host);
  const int64_t now = monotonic_ns();
  for (const WorkerBeat& one : beats) {
    comm::WorkerPulse& pulse = memory.pulse(WorkerRank(rank++));
    pulse.beat(static_cast<comm::Activity>(std::min<uint32_t>(one.activity, 5)),
               now - std::max<int64_t>(0, one.age_ns));
    pulse.computing_ns.store(one.computing_ns);
    pulse.mini_batches.store(one.mini_batches);
    pulse.reading_ns.store(one.reading_ns);
    pulse.measured_steps.store(one.measured_steps);
    pulse.est_squares.store(one.est_squares);
    pulse.mean_squares.store(one.mean_squares);
  }
}

int64_t workers_elsewhere(const HostPlan& plan) {
  return plan.workers_before(plan.hosts.size()) - std::ssize(plan.hosts[0].workers);
}

}  // namespace estrain::hosts
