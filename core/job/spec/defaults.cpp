#include "core/job/spec/defaults.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/job/spec/data_formats.h"

namespace estrain::spec {
namespace {

constexpr uint64_t kReadAheadBytes = 256 << 20;
constexpr uint64_t kMostReadAhead = 64;  // mini-batches

}  // namespace

std::vector<std::string> comparable_metrics(const TrainSection& train) {
  std::vector<std::string> names = {"loss", "accuracy"};
  for (const int64_t k : train.top_k) names.push_back(fmt::format("top{}", k));
  names.insert(names.end(), train.metrics.begin(), train.metrics.end());
  names.insert(names.end(), train.metrics_names.begin(), train.metrics_names.end());
  return names;
}

bool improves_by_falling(const TrainSection& train, const std::string& metric) {
  return metric == "loss" || std::ranges::find(train.falling, metric) != train.falling.end();
}

int64_t total_steps(const TrainSection& train, const batches::BatchSchedule& batches) {
  return train.steps ? *train.steps : batches.end_of(Epoch(*train.epochs)).value;
}

double learning_rate(const OptimizerSection& optimizer) { return optimizer.lr.value_or(traits_of(optimizer.name).lr); }

double weight_decay(const OptimizerSection& optimizer) {
  return optimizer.weight_decay.value_or(traits_of(optimizer.name).weight_decay);
}

double epsilon(const OptimizerSection& optimizer) { return optimizer.eps.value_or(traits_of(optimizer.name).eps); }

std::vector<double> betas(const OptimizerSection& optimizer) {
  const OptimizerTraits& traits = traits_of(optimizer.name);
  return optimizer.betas.value_or(std::vector<double>{traits.beta1, traits.beta2});
}

double momentum(const OptimizerSection& optimizer) {
  return optimizer.momentum.value_or(traits_of(optimizer.name).momentum);
}

bool nesterov(const OptimizerSection& optimizer) {
  return optimizer.nesterov.value_or(traits_of(optimizer.name).nesterov);
}

double dropout(const ModelSection& model) {
  const bool vgg = model.name.rfind("vgg", 0) == 0;
  return model.dropout.value_or(model.name == "gpt" ? 0.1 : vgg ? 0.5 : 0);
}

double holdout(const DataSection& data) {
  return data.holdout.value_or(traits_of(data.format).samples == Samples::tokens ? 0.1 : 0);
}

int64_t most_prefetch(const DataSection& data, uint64_t batch_bytes) {
  if (data.prefetch > 0) return data.prefetch;
  const uint64_t fit = std::min(kReadAheadBytes / std::max<uint64_t>(1, batch_bytes), kMostReadAhead);
  return std::max(first_prefetch(data), static_cast<int64_t>(fit));
}

JobSpec with_defaults(JobSpec spec) {
  spec.optimizer.lr = learning_rate(spec.optimizer);
  spec.optimizer.weight_decay = weight_decay(spec.optimizer);
  spec.optimizer.eps = epsilon(spec.optimizer);
  spec.optimizer.betas = betas(spec.optimizer);
  spec.optimizer.momentum = momentum(spec.optimizer);
  spec.optimizer.nesterov = nesterov(spec.optimizer);
  spec.model.dropout = dropout(spec.model);
  spec.data.holdout = holdout(spec.data);
  return spec;
}

}  // namespace estrain::spec
