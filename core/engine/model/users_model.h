#pragma once
// A user's own network in one of two forms: an exported program (exported.h) or a module in Python
// (python_model.h). Both give outputs for a mini-batch; a UsersModel makes the loss and the metrics of an
// evaluation from the outputs.
//
// Loss. Either the model's first output, one number; or torch.nn.functional's cross_entropy, mse_loss,
// binary_cross_entropy_with_logits or nll_loss of the first output and the target, with that function's defaults: the
// second dimension is the classes.
//
// Terms. The outputs of a training mini-batch behind the first, a number each, go on record under names
// (LossWanted::terms).
//
// Metrics. The outputs of an evaluation behind the first: a number for each sample, or one number for the mini-batch,
// which then counts for each sample of the mini-batch.
//
// Evaluation. A model with a loss of its own is evaluated by mini-batches: the loss counts for each sample of the
// mini-batch; the model has no accuracy. Otherwise loss and accuracy are means over the predictions of the whole set,
// as torch.nn.functional's loss is over a mini-batch: a target of ignored_class (-100) does not count. A prediction is
// right if the most likely class is the target's. For a target of probabilities, the most likely class counts as the
// target. With a ragged target, whose mini-batches have lengths of their own, EvaluatedBatch::losses are sums over the
// sample's predictions, not means: a mean would depend on how far the sample is padded.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/engine/model/data_shape.h"
#include "core/engine/model/model.h"
#include "core/formats/program/program.h"
#include "core/job/spec/job_spec.h"

namespace estrain::model {

// A tensor of the data that may be an input of a model.
struct OfferedTensor {
  program::ScalarType type;
  std::vector<int64_t> dims;  // of one sample; empty for a number
  bool is_ragged = false;     // dims[0] is the longest sample's; each mini-batch has a length of its own
};
// `shape` is of images, vectors or text. For named arrays the caller describes the array itself.
OfferedTensor offered_input(const DataShape& shape);   // the sample
OfferedTensor offered_target(const DataShape& shape);  // the sample's label, or the next tokens

// The source of a model's input, or of the target of a loss: a tensor of a mini-batch.
struct InputSource {
  std::string name;       // the model's input, or the target, in messages
  size_t field = 0;       // is_named: index in MiniBatch::fields; else 0: MiniBatch::input, 1: MiniBatch::target
  bool is_named = false;  // whether the data are named arrays
  std::optional<c10::ScalarType> widened{};  // the type to convert to, if the model's input has a wider type
};
// Returns the tensor as the mini-batch has it, not widened.
const torch::Tensor& tensor_of(const MiniBatch& batch, const InputSource& source);

// Returns the note that a SyncBatchNorm takes the statistics of one EST. `module`: the layer's name in the model; empty
// for the model itself.
std::string note_of_synced(const std::string& module);
// Returns the note that a call of torch.distributed finds no other ranks. `call`: "net.py:7 calls is_initialized".
std::string note_of_ranks(const std::string& call);

class UsersModel : public Model {
 public:
  // Throws the reason, an Error, if this model cannot be evaluated.
  virtual void require_evaluation() const = 0;

  // Throws Fault::spec if an evaluation is known to give fewer outputs than want_metrics() names.
  virtual void require_outputs() const = 0;

  // Returns the strides of a parameter's gradient in the user's module; empty: the parameter's strides. torch sums a
  // gradient's norm in the order of the gradient's strides.
  virtual std::vector<int64_t> gradient_strides(const torch::Tensor& parameter) const = 0;

  // Returns notes on results that the user may not expect, for `estrain check`; each note is a sentence.
  virtual std::vector<std::string> notes() const = 0;

  // Returns the number of predictions for a sample, as if no target were of ignored_class. 0: the model has no
  // accuracy. A ragged target, whose samples have different numbers of predictions, has 1: the losses of samples are
  // sums.
  int64_t predictions_per_sample() const { return predictions_; }

 protected:
  UsersModel(const spec::ModelSection& section, double label_smoothing)
      : loss_(section.loss), loss_target_(section.loss_target), label_smoothing_(label_smoothing) {}

  bool gives_loss() const { return loss_ == spec::Loss::output; }

  // Finds the target for a loss outside the model, and counts the predictions for a sample. `second_input`: the name of
  // the model's second input, which takes the labels; empty: the model has one input. Throws Fault::spec where
  // model.loss_target names no array, or where the loss would count what fills a ragged array.
  void find_target(const DataShape& shape, const std::string& second_input);

 private:
  // Returns the outputs in training mode, or for an evaluation; at least one. Throws as Model::loss().
  virtual std::vector<torch::Tensor> train_outputs(const MiniBatch& batch) = 0;
  virtual std::vector<torch::Tensor> evaluation_outputs(const MiniBatch& batch) = 0;
  // Returns the inputs of the training model, for messages.
  virtual const std::vector<InputSource>& sources() const = 0;

  torch::Tensor loss_of(const std::vector<torch::Tensor>& outputs, const torch::Tensor& target, int64_t reduction);
  // Throws Fault::spec unless the classes' weights fit the output.
  void require_weights(const torch::Tensor& output) const;
  // Gives the terms among the outputs to Model::results(). Throws Fault::spec where a term is missing or is not one
  // number.
  void give_terms(const std::vector<torch::Tensor>& outputs);
  // Returns the loss to train: the mean; with LossWanted::sums the sum, and gives the weight to Model::results().
  torch::Tensor training_loss(const std::vector<torch::Tensor>& outputs, const torch::Tensor& target);
  // Runs `body`. If a value of the mini-batch is out of range, the error also tells the range of each input's values.
  template <typename Body>
  auto telling_values(const MiniBatch& batch, Body&& body) const;
  // Appends the metrics among the outputs to `columns`, each [samples]. Throws Fault::spec where a metric is missing or
  // has another number of elements than 1 or `samples`.
  void add_outputs(const std::vector<torch::Tensor>& outputs, int64_t samples,
                   std::vector<torch::Tensor>& columns) const;

  torch::Tensor compute_loss(const MiniBatch& batch) override;
  EvaluatedBatch compute_evaluation(const MiniBatch& batch) override;
  EvaluatedBatch evaluation_of(const MiniBatch& batch);
  // Returns the outputs and, as far as they are known, the targets, with a row for each sample: a number of the whole
  // mini-batch counts for each sample. Throws Fault::spec for an output of other sizes.
  std::vector<std::pair<std::string, torch::Tensor>> rows_of(const std::vector<torch::Tensor>& outputs,
                                                             const MiniBatch& batch) const;
  // Evaluates without the metrics among the outputs.
  EvaluatedBatch evaluation_of_outputs(const std::vector<torch::Tensor>& outputs, const MiniBatch& batch);

  spec::Loss loss_;
  std::string loss_target_;
  double label_smoothing_;
  std::optional<InputSource> target_;
  int64_t predictions_ = 0;
  bool has_ragged_target_ = false;
};

}  // namespace estrain::model
