#pragma once
// The trace experiment of EasyScale (SC'23, section 5.2): 32 V100 on 4 hosts, 16 P100 on 8, 16 T4 on 4; rounds of 60 s;
// a job's first start costs 20 s, as published, later changes nothing. --charge SECONDS: every change costs that.
//
// As in the published simulator a round sees the jobs that are submitted until its end, so that a job may begin up to
// 60 s before it is submitted, and the makespan is a whole number of rounds.
//
// The folder holds step_times.csv. A trace has the columns name, submit_s, model, max_parallelism, batch_per_est,
// epochs, heterogeneous, preferred_gpu. Of jobs with one name the last counts, at the place of the first, as the
// published simulator has it. A step takes as long as the type of device with the largest ESTs x seconds.

#include <memory>

#include "core/simulate/world.h"

namespace estrain::simulate {

std::unique_ptr<World> open_easyscale_world(const WorldFiles& files);

}  // namespace estrain::simulate
