#include "core/spec/defaults.h"

namespace estrain::spec {

double learning_rate(const OptimizerSection& optimizer) { return optimizer.lr.value_or(1e-3); }

double weight_decay(const OptimizerSection& optimizer) {
  return optimizer.weight_decay.value_or(optimizer.name == OptimizerKind::adamw ? 1e-2 : 0);
}

double dropout(const ModelSection& model) {
  const bool vgg = model.name.rfind("vgg", 0) == 0;
  return model.dropout.value_or(model.name == "gpt" ? 0.1 : vgg ? 0.5 : 0);
}

JobSpec with_defaults(JobSpec spec) {
  spec.optimizer.lr = learning_rate(spec.optimizer);
  spec.optimizer.weight_decay = weight_decay(spec.optimizer);
  spec.model.dropout = dropout(spec.model);
  return spec;
}

}  // namespace estrain::spec
