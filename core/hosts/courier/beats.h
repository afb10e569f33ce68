#pragma once
// Carries workers' signs of life to the coordinator's memory, where the launcher also finds those of its own workers.

#include <cstdint>
#include <span>
#include <string>

#include "core/hosts/exchange/host_plan.h"
#include "core/hosts/exchange/wire.h"
#include "core/state/comm/job_memory.h"

namespace estrain::hosts {

// A WorkerBeat of each worker of this host.
std::string beats_of_own_workers(comm::JobMemory& memory, const HostPlan& plan);
// Takes the beats of another host of the plan, one beat for each of its workers.
void take_beats(comm::JobMemory& memory, const HostPlan& plan, size_t host, std::span<const WorkerBeat> beats);
// Workers of all hosts but the first.
int64_t workers_elsewhere(const HostPlan& plan);

}  // namespace estrain::hosts
