#include "core/engine/model/model.h"

#include <ATen/autocast_mode.h>
#include <c10/core/GradMode.h>

#include <map>

#include "core/engine/model/block_watch.h"
#include "core/engine/model/torch_error.h"

namespace estrain::model {
namespace {

class EvaluationMode {
 public:
  explicit EvaluationMode(torch::nn::Module& module) : module_(module), was_training_(module.is_training()) {
    module_.eval();
  }
  ~EvaluationMode() { module_.train(was_training_); }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  torch::nn::Module& module_;
  bool was_training_;
};

thread_local std::string_view block_under_way;

// Appends a tensor to `into` at the first occurrence, and to `aliases` at later occurrences.
void list_once(const torch::OrderedDict<std::string, torch::Tensor>& named,
               std::vector<std::pair<std::string, torch::Tensor>>& into, std::vector<NamedTensors::Alias>& aliases) {
  std::map<const void*, std::string> first_names;
  for (const auto& item : named) {
    const auto [first, is_new] = first_names.emplace(item.value().unsafeGetTensorImpl(), item.key());
    if (is_new) {
      into.emplace_back(item.key(), item.value());
    } else {
      aliases.push_back({item.key(), first->second});
    }
  }
}

}  // namespace

namespace autocast = at::autocast;

AutocastGuard::AutocastGuard(c10::DeviceType device, spec::Precision precision)
    : device_(device), active_(precision == spec::Precision::bf16) {
  if (!active_) return;
  was_enabled_ = autocast::is_autocast_enabled(device);
  was_caching_ = autocast::is_autocast_cache_enabled();
  dtype_before_ = autocast::get_autocast_dtype(device);
  autocast::set_autocast_enabled(device, true);
  autocast::set_autocast_dtype(device, at::kBFloat16);
  autocast::set_autocast_cache_enabled(true);
  autocast::increment_nesting();
}

AutocastGuard::~AutocastGuard() {
  if (!active_) return;
  if (autocast::decrement_nesting() == 0) autocast::clear_cache();
  autocast::set_autocast_enabled(device_, was_enabled_);
  autocast::set_autocast_dtype(device_, dtype_before_);
  autocast::set_autocast_cache_enabled(was_caching_);
}

std::vector<torch::Tensor> MiniBatch::tensors() const {
  return fields.empty() ? std::vector<torch::Tensor>{input, target} : fields;
}

MiniBatch MiniBatch::with(const std::vector<torch::Tensor>& tensors) const {
  if (fields.empty()) return {tensors.at(0), tensors.at(1)};
  return {{}, {}, tensors};
}

MiniBatch MiniBatch::first(int64_t samples) const {
  std::vector<torch::Tensor> parts = tensors();
  for (torch::Tensor& tensor : parts) tensor = tensor.narrow(0, 0, samples);
  return with(parts);
}

torch::Tensor Model::loss(const MiniBatch& batch) {
  return translating_torch_errors([&] {
    const AutocastGuard autocast(batch.any().device().type(), precision_);
    results_.clear();
    return compute_loss(batch);
  });
}

EvaluatedBatch Model::evaluate(const MiniBatch& batch) {
  EvaluationMode evaluation_mode(*this);
  at::NoGradGuard no_grad;
  return translating_torch_errors([&] {
    const AutocastGuard autocast(batch.any().device().type(), precision_);
    return compute_evaluation(batch);
  });
}

std::optional<torch::Tensor> Model::class_weights(const torch::Tensor& scores) {
  if (loss_wanted_.class_weights.empty()) return std::nullopt;
  const auto type = scores.scalar_type() == torch::kDouble ? torch::kDouble : torch::kFloat;
  if (!class_weights_ || class_weights_->device() != scores.device() || class_weights_->scalar_type() != type)
    class_weights_ = torch::tensor(loss_wanted_.class_weights, torch::kDouble).to(scores.device(), type);
  return class_weights_;
}

torch::Tensor Model::forward(const torch::Tensor& input) const {
  torch::Tensor x = input;
  for (const ModelBlock& block : blocks_) {
    block_under_way = block.name;
    if (is_training() && blocks_are_watched()) {
      const bool is_first = &block == &blocks_.front();
      const torch::Tensor begun = begin_block(block.name, is_first ? torch::Tensor() : x);
      if (!is_first) x = begun;
    }
    x = block.forward(x);
  }
  block_under_way = {};
  return x;
}

std::string_view current_block() { return block_under_way; }

void set_current_block(std::string_view name) { block_under_way = name; }

void Model::add_block(std::string name, std::function<torch::Tensor(const torch::Tensor&)> run) {
  blocks_.push_back({std::move(name), std::move(run)});
}

NamedTensors named_tensors(const torch::nn::Module& module) {
  NamedTensors result;
  list_once(module.named_parameters(), result.parameters, result.aliases);
  list_once(module.named_buffers(), result.buffers, result.aliases);
  return result;
}

}  // namespace estrain::model
