#pragma once
// Defaults that depend on another key, so they cannot stand as initialisers in JobSpec: what an unset value means.

#include <cstdint>

#include "core/spec/job_spec.h"

namespace estrain::spec {

double learning_rate(const OptimizerSection& optimizer);  // unset: the optimizer's (optimizer_section.h)
double weight_decay(const OptimizerSection& optimizer);   // likewise
double epsilon(const OptimizerSection& optimizer);        // likewise
double dropout(const ModelSection& model);                // unset: gpt 0.1, vgg 0.5, else 0

// Mini-batches of so many bytes that a worker reads ahead of need: from the first number on, up to the second. They are
// equal unless data.prefetch is 0; then what it reads ahead takes no more than 256 MiB, or four mini-batches.
constexpr int64_t first_prefetch(const DataSection& data) { return data.prefetch > 0 ? data.prefetch : 4; }
int64_t most_prefetch(const DataSection& data, uint64_t batch_bytes);

// `spec` with the first four filled in where a key may be given: two specs that mean the same are then equal.
JobSpec with_defaults(JobSpec spec);

}  // namespace estrain::spec
