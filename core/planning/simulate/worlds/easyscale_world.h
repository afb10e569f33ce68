#pragma once
// The trace experiment of EasyScale (SC'23, section 5.2): 32 V100 on 4 hosts, 16 P100 on 8, 16 T4 on 4; rounds of 60 s;
// a job's first start costs 20 s, as published, later changes nothing; with --charge SECONDS, each costs SECONDS.
//
// The policies with that simulator's rules are easyscale-homo:rule=simulator and easyscale-heter:rule=simulator.
// The makespan is counted as the published simulator counts: to the beginning of the round in which the last job
// ends. The times of its published allocations are early by the same 60 s.
//
// Seconds of a mini-batch come from the two tables for a single worker without switches between ESTs: fig12 (D1), and
// fig11 (D1, switching off) at a second batch.
//
// The folder holds step_times.csv. A trace has the columns name, submit_s, model, max_parallelism, batch_per_est,
// epochs, heterogeneous, preferred_gpu. If several jobs have the same name, the last job counts, at the position of
// the first, as in the published simulator. The type of device with the largest ESTs x seconds determines the time of a
// step.

#include <memory>

#include "core/planning/simulate/world.h"

namespace estrain::simulate {

std::unique_ptr<World> open_easyscale_world(const WorldFiles& files);

}  // namespace estrain::simulate
