#pragma once
// Jobs with deadlines and measured speeds, as ElasticFlow's authors (ASPLOS'23) simulated them: hosts with 8 A100,
// rounds of 60 s, no cost of a change without --charge (the published simulator's cost is not in its data).
//
// The folder holds elasticflow_throughputs.csv: gpu, model, global_batch_size, num_gpu, iters_per_s. A trace has the
// columns job, submit_s, model, batch_size, num_gpu, deadline_s, iterations, or the columns of the authors' own files
// (job_id, submit_time, model_name, batch_size, num_gpu, ddl, real_iteration), and may have cluster: a workload for
// each. Speeds were measured on powers of two; on other numbers a job is as fast as on the power below. The clusters 1
// to 10 are the authors'; other clusters are as typed.

#include <memory>

#include "core/planning/simulate/world.h"

namespace estrain::simulate {

bool is_elasticflow_trace(const std::string& path);
std::unique_ptr<World> open_elasticflow_world(const WorldFiles& files);

}  // namespace estrain::simulate
