#pragma once
// The interface of a model: an ordered list of named blocks, and the model's own loss.
//
// Blocks let layers be profiled, placed and captured separately. The loss belongs to the
// model, so that a model for detection or question answering can bring its own.
// Parameters and buffers are torch::nn::Module's, with the names and order of Python's
// state_dict.
//
// Memory: a worker binds each parameter to its arena with `parameter.set_data(view)` and writes buffers in place. So
// every layer computes with the registered tensor itself, never with a copy of the values or an earlier view.
//
// Precision: parameters, buffers and the loss are float32, and so are the gradients of a backward pass. Within loss()
// and evaluate() of a model set to bf16, operators choose types as under torch.autocast (Autocast).
//
// Randomness: loss() in training mode draws dropout masks from torch's default generator of the input's device;
// evaluate() draws nothing.

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>
#include <torch/nn/module.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/job/spec/job_spec.h"

namespace estrain::model {

// Does torch.autocast in C++: during an object's lifetime, operators of one kind of device compute in bfloat16 where
// bfloat16 is safe (products, convolutions, attention) and in float32 elsewhere (sums, norms, losses), by LibTorch's
// own lists. The forward pass belongs inside. The backward pass belongs outside: it uses the types of the forward pass.
//
// A weight is cast once per forward pass, for any number of uses, and the cast is dropped at the end, as in Python.
// Keeping the cast for the next EST, whose weights are equal, would change bits: the cast is a node of autograd's
// graph, made in the first EST's pass and so older than all nodes of the second pass. Autograd runs younger nodes
// first, so the second EST's backward pass would sum the weight's gradient in another order, and the order would depend
// on the first EST of a worker. Also, all gradients of cast weights would come at the end of the pass, when no work is
// left to overlap with their copies.
class AutocastGuard {
 public:
  // Does nothing unless `precision` is bf16. Affects only this thread; objects may be nested.
  AutocastGuard(c10::DeviceType device, spec::Precision precision);
  ~AutocastGuard();
  AutocastGuard(const AutocastGuard&) = delete;
  AutocastGuard& operator=(const AutocastGuard&) = delete;

 private:
  const c10::DeviceType device_;
  const bool active_;
  bool was_enabled_ = false, was_caching_ = false;
  c10::ScalarType dtype_before_{};
};

// One mini-batch. Images: input float32 [n, channels, height, width], target int64 [n]. Vectors: input float32 [n,
// features]. Text: input and target int64 [n, tokens], the target one token ahead. Named arrays: only `fields`, in the
// order of the data's shape, each [n, …].
struct MiniBatch {
  torch::Tensor input;
  torch::Tensor target;
  std::vector<torch::Tensor> fields = {};

  const torch::Tensor& any() const { return fields.empty() ? input : fields.front(); }
  int64_t size() const { return any().size(0); }
  // Return all tensors of a batch, and a batch from a list of such tensors.
  std::vector<torch::Tensor> tensors() const;
  MiniBatch with(const std::vector<torch::Tensor>& tensors) const;
  MiniBatch first(int64_t samples) const;
};

// The results of an evaluation for each sample of a batch, in sample order.
struct EvaluatedBatch {
  // float32 [n]: mean over the sample's predictions, without label smoothing; predictions without a target count as 0.
  torch::Tensor losses;
  torch::Tensor correct;  // int64 [n]: predictions with the target as the most likely class
  // int64 [n]: predictions with a target, all but those of ignored_class: 1 for images, the sequence's length for text.
  // 0: the model makes no prediction that can be right or wrong.
  torch::Tensor counted;
  // The metrics named by MetricsWanted, float32 [n] each: for each k the predictions with a target among the k most
  // likely classes (fewer than k are likelier than the target); the target's class; the mean weight of the sample's
  // predictions, 0 for one without a target; each further output.
  std::vector<torch::Tensor> columns = {};
  // If wanted (Model::want_outputs): what the model gave, and the targets; rows by sample. "output", "output1", …;
  // "labels".
  std::vector<std::pair<std::string, torch::Tensor>> outputs = {};
};

// Metrics of an evaluation beside loss and accuracy.
struct MetricsWanted {
  std::vector<int64_t> top_k = {};
  bool target_class = false;              // where a sample has a class
  bool target_weight = false;             // losses are weighted by the target's class
  std::vector<std::string> outputs = {};  // names of a program's outputs behind the first

  int64_t weight_column() const { return static_cast<int64_t>(top_k.size()) + (target_class ? 1 : 0); }
  size_t columns() const { return top_k.size() + (target_class ? 1 : 0) + (target_weight ? 1 : 0) + outputs.size(); }
};

// What a training mini-batch gives beside the mean loss.
struct LossWanted {
  std::vector<std::string> terms = {};  // names of a user's model's outputs behind the first, a number each
  // loss() is the sum over the predictions with a target, and the last of results() is the weight of these predictions:
  // how many there are, or the sum of their classes' weights. A model with a loss of its own gives the weight as the
  // term spec::weight_term, and loss() is the loss times the weight.
  bool sums = false;
  std::vector<double> class_weights = {};  // as in torch.nn's losses; of binary_cross_entropy_with_logits: pos_weight
};

// A step of the forward pass. The first block takes MiniBatch::input, each later block the previous block's output.
struct ModelBlock {
  std::string name;  // name of the block's layers: "stem", "layer1.0", "head"
  std::function<torch::Tensor(const torch::Tensor&)> forward;
};

class Model : public torch::nn::Module {
 public:
  Model(const Model&) = delete;  // blocks refer to the layers of this object
  Model& operator=(const Model&) = delete;

  // Returns the mean loss over the batch, a scalar with its graph. Throws Fault::mismatch for a label or token outside
  // the model's classes, Fault::infeasible if memory runs out.
  torch::Tensor loss(const MiniBatch& batch);

  // Returns what the last loss() gave beside the loss, float32 scalars without a graph: the terms, then the weight.
  const std::vector<torch::Tensor>& results() const { return results_; }

  // Runs in evaluation mode without a graph, and restores the mode. Throws as loss().
  EvaluatedBatch evaluate(const MiniBatch& batch);

  // Sets the precision of loss() and evaluate(); initially fp32. The device handles tf32 (device::DeviceOptions).
  void set_precision(spec::Precision precision) { precision_ = precision; }

  // Sets the further metrics of evaluate(); initially empty.
  void want_metrics(MetricsWanted wanted) { wanted_ = std::move(wanted); }

  // Sets whether evaluate() also gives the outputs; initially not.
  void want_outputs(bool wanted) { wants_outputs_ = wanted; }

  // Sets the results of loss(); initially the mean alone.
  void want_loss(LossWanted wanted) { loss_wanted_ = std::move(wanted); }

  const std::vector<ModelBlock>& blocks() const { return blocks_; }

  // Runs all blocks: returns the model's output for an input, in the current mode, without the model's autocast.
  // Updates current_block().
  torch::Tensor forward(const torch::Tensor& input) const;

 protected:
  Model() = default;
  void add_block(std::string name, std::function<torch::Tensor(const torch::Tensor&)> run);
  const MetricsWanted& wanted() const { return wanted_; }
  const LossWanted& loss_wanted() const { return loss_wanted_; }
  bool wants_outputs() const { return wants_outputs_; }
  // Returns the classes' weights on the device of `scores`, float64 for such scores, otherwise float32; nothing if all
  // classes weigh the same.
  std::optional<torch::Tensor> class_weights(const torch::Tensor& scores);
  // Adds a number to results().
  void give(const torch::Tensor& result) { results_.push_back(result.detach().to(torch::kFloat).reshape({})); }

 private:
  virtual torch::Tensor compute_loss(const MiniBatch& batch) = 0;
  virtual EvaluatedBatch compute_evaluation(const MiniBatch& batch) = 0;

  std::vector<ModelBlock> blocks_;
  spec::Precision precision_ = spec::Precision::fp32;
  MetricsWanted wanted_;
  LossWanted loss_wanted_;
  bool wants_outputs_ = false;
  std::vector<torch::Tensor> results_;
  std::optional<torch::Tensor> class_weights_;  // as returned last: a captured pass copies nothing to its device
};

// Returns the name of the block whose forward pass this thread is running; otherwise empty.
std::string_view current_block();
// For models that are not a chain of blocks. `name` must live until the next call.
void set_current_block(std::string_view name);

// The state of a module by name. A tensor with several names (tied weights) is listed once, under the first name, as in
// Python's model.parameters(); the further names are aliases.
struct NamedTensors {
  struct Alias {
    std::string name;
    std::string target;  // the name of the tensor in the list
  };
  std::vector<std::pair<std::string, torch::Tensor>> parameters;
  std::vector<std::pair<std::string, torch::Tensor>> buffers;
  std::vector<Alias> aliases;
};
NamedTensors named_tensors(const torch::nn::Module& module);

}  // namespace estrain::model
