#pragma once
// The meaning of unset values whose default depends on another key, out of reach of JobSpec's initialisers.

#include <cstdint>
#include <string>
#include <vector>

#include "core/job/batches/batch_schedule.h"
#include "core/job/spec/job_spec.h"

namespace estrain::spec {

double learning_rate(const OptimizerSection& optimizer);       // if unset: the optimizer's (optimizer_section.h)
double weight_decay(const OptimizerSection& optimizer);        // likewise
double epsilon(const OptimizerSection& optimizer);             // likewise
std::vector<double> betas(const OptimizerSection& optimizer);  // likewise
double momentum(const OptimizerSection& optimizer);            // likewise
bool nesterov(const OptimizerSection& optimizer);              // likewise
double dropout(const ModelSection& model);                     // unset: gpt 0.1, vgg 0.5, else 0
double holdout(const DataSection& data);                       // unset: text and tokens 0.1, else 0

// The metrics of evaluations that early_stop.metric and checkpoint.best may name.
std::vector<std::string> comparable_metrics(const TrainSection& train);
// Whether the metric gets better by falling; otherwise by rising.
bool improves_by_falling(const TrainSection& train, const std::string& metric);

// Returns the number of steps at the job's end.
int64_t total_steps(const TrainSection& train, const batches::BatchSchedule& batches);

// Returns the number of mini-batches of the given bytes that a worker reads ahead: at first, and at most. Both are
// equal unless data.prefetch is 0; then the most is 256 MiB and 64 mini-batches, but at least four.
constexpr int64_t first_prefetch(const DataSection& data) { return data.prefetch > 0 ? data.prefetch : 4; }
int64_t most_prefetch(const DataSection& data, uint64_t batch_bytes);

// Returns `spec` with the first eight filled in: two specs with the same meaning are then equal.
JobSpec with_defaults(JobSpec spec);

}  // namespace estrain::spec
