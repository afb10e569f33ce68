#pragma once
// Defaults that depend on another key, so they cannot stand as initialisers in JobSpec: what an unset value means.

#include "core/spec/job_spec.h"

namespace estrain::spec {

double learning_rate(const OptimizerSection& optimizer);  // unset: 1e-3
double weight_decay(const OptimizerSection& optimizer);   // unset: 1e-2 for adamw, else 0
double dropout(const ModelSection& model);                // unset: gpt 0.1, vgg 0.5, else 0

// `spec` with the three above filled in where a key may be given: two specs that mean the same are then equal.
JobSpec with_defaults(JobSpec spec);

}  // namespace estrain::spec
