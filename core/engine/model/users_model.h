#pragma once
// A user's own network, in whatever form it comes: an exported program (exported.h) or a module in Python
// (python_model.h). Either gives outputs for a mini-batch; the loss and the metrics of an evaluation are made of them
// here.
//
// Loss. Either the model's first output, one number; or torch.nn.functional's cross_entropy, mse_loss,
// binary_cross_entropy_with_logits or nll_loss of the first output and the target, with that function's defaults: the
// second dimension is the classes.
//
// Metrics. The outputs of an evaluation behind the first: a number for each sample, or one for the mini-batch, which
// then counts for each of its samples.
//
// Evaluation. A model that gives its loss is evaluated by mini-batches: its loss counts for each sample of the
// mini-batch, and there is no accuracy. Otherwise loss and accuracy are means over the predictions of the whole set, as
// torch.nn.functional's loss is over a mini-batch: a target of ignored_class does not count. What is right: the most
// likely class is the target's, which is the most likely one where the target is probabilities of classes.

#include <optional>
#include <string>
#include <vector>

#include "core/engine/model/data_shape.h"
#include "core/engine/model/model.h"
#include "core/formats/program/program.h"
#include "core/job/spec/job_spec.h"

namespace estrain::model {

// A tensor of the data that may be an input of a model.
struct Offer {
  program::Type type;
  std::vector<int64_t> dims;  // of one sample
};
Offer offered_input(const DataShape& shape);   // images, vectors and text: the sample
Offer offered_target(const DataShape& shape);  // and its label, or the tokens that follow

// The tensor of a batch for an input.
struct Source {
  std::string name;
  size_t field = 0;  // index in Batch::fields; otherwise 0 is the input, 1 the target
  bool is_named = false;
  std::optional<c10::ScalarType> widened{};  // target type, if widened
};
const torch::Tensor& tensor_of(const Batch& batch, const Source& source);

// What to say of a module of the class SyncBatchNorm.
std::string note_of_synced(const std::string& module);
// And of a call of torch.distributed: "net.py:7 calls is_initialized".
std::string note_of_ranks(const std::string& call);

class UsersModel : public Model {
 public:
  // Throws the reason if this model cannot be evaluated.
  virtual void require_evaluation() const = 0;

  // Throws Fault::spec where an evaluation is known to give fewer outputs than want_metrics() names.
  virtual void require_outputs() const = 0;

  // The strides of a parameter's gradient in the user's module; empty: those of the parameter. In their order torch
  // sums a gradient's norm.
  virtual std::vector<int64_t> gradient_strides(const torch::Tensor& parameter) const = 0;

  // What the job computes otherwise than the user may think, for `estrain check`; each is a sentence.
  virtual std::vector<std::string> notes() const = 0;

  // Predictions that an evaluation makes for a sample whose targets all count; 0: it tells no accuracy.
  int64_t predictions_per_sample() const { return predictions_; }

 protected:
  UsersModel(const spec::ModelSection& section, double label_smoothing)
      : loss_(section.loss), loss_target_(section.loss_target), label_smoothing_(label_smoothing) {}

  bool gives_loss() const { return loss_ == spec::Loss::output; }

  // Finds the target for a loss outside the model, and counts its elements. `second_input`: the name of the input that
  // gets the labels; empty: none. Throws Fault::spec where there is no such array.
  void find_target(const DataShape& shape, const std::string& second_input);

 private:
  // In training mode, or for an evaluation; at least one. Throws as Model::loss().
  virtual std::vector<torch::Tensor> train_outputs(const Batch& batch) = 0;
  virtual std::vector<torch::Tensor> evaluation_outputs(const Batch& batch) = 0;
  // The inputs of the training model, for messages.
  virtual const std::vector<Source>& sources() const = 0;

  torch::Tensor loss_of(const std::vector<torch::Tensor>& outputs, const torch::Tensor& target, int64_t reduction);
  // Runs `body`; where a value of the mini-batch is out of range, the error tells the values.
  template <typename Body>
  auto telling_values(const Batch& batch, Body&& body) const;
  void add_outputs(const std::vector<torch::Tensor>& outputs, int64_t samples,
                   std::vector<torch::Tensor>& columns) const;

  torch::Tensor compute_loss(const Batch& batch) override;
  Evaluation compute_evaluation(const Batch& batch) override;
  Evaluation evaluation_of(const Batch& batch);
  // Without the metrics among the outputs.
  Evaluation evaluation_of_outputs(const std::vector<torch::Tensor>& outputs, const Batch& batch);

  spec::Loss loss_;
  std::string loss_target_;
  double label_smoothing_;
  std::optional<Source> target_;
  int64_t predictions_ = 0;
};

}  // namespace estrain::model
