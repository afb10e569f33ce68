#include "core/engine/model/users_model.h"

#include <ATen/core/Reduction.h>
#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/nll_loss_nd.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/engine/model/class_scores.h"
#include "core/engine/model/torch_error.h"
#include "core/job/spec/enum_names.h"

namespace estrain::model {

OfferedTensor offered_input(const DataShape& shape) {
  if (const auto* image = std::get_if<ImageShape>(&shape))
    return {program::ScalarType::f32, {image->channels, image->height, image->width}};
  if (const auto* vector = std::get_if<VectorShape>(&shape)) return {program::ScalarType::f32, {vector->features}};
  return {program::ScalarType::i64, {std::get<TokenShape>(shape).context}};
}

OfferedTensor offered_target(const DataShape& shape) {
  if (const auto* tokens = std::get_if<TokenShape>(&shape)) return {program::ScalarType::i64, {tokens->context}};
  return {program::ScalarType::i64, {}};
}

const torch::Tensor& tensor_of(const MiniBatch& batch, const InputSource& source) {
  if (source.is_named) return batch.fields.at(source.field);
  return source.field == 0 ? batch.input : batch.target;
}

std::string note_of_synced(const std::string& module) {
  return fmt::format(
      "{} is a SyncBatchNorm: each EST takes the statistics of its own mini-batch, as BatchNorm does; under "
      "DistributedDataParallel they are those of the mini-batches of all ranks",
      module.empty() ? "the module" : module);
}

std::string note_of_ranks(const std::string& call) {
  return call +
         " of torch.distributed: each EST computes alone, without a process group; what the module gathers over ranks "
         "under DistributedDataParallel is that of one EST's mini-batch here";
}

namespace {

bool is_floating(program::ScalarType type) {
  using enum program::ScalarType;
  return type == f16 || type == bf16 || type == f32 || type == f64;
}

// Returns the number of predictions, right or wrong, for a target of a sample.
int64_t predictions_for(spec::Loss loss, const OfferedTensor& target) {
  if (loss == spec::Loss::mse) return 0;
  int64_t elements = 1;
  for (const int64_t dim : target.dims) elements *= dim;
  // The first dimension of probabilities is the dimension of the classes.
  const bool has_classes = loss == spec::Loss::cross_entropy && is_floating(target.type) && !target.dims.empty();
  return has_classes ? elements / std::max<int64_t>(1, target.dims[0]) : elements;
}

// What fills a ragged target must not count.
void require_ignored_pad(spec::Loss loss, const NamedShape::NamedField& target) {
  const bool has_classes = loss == spec::Loss::cross_entropy || loss == spec::Loss::nll;
  if (!has_classes || is_floating(target.type)) {
    throw Error::make(Fault::spec, "model.loss = \"{}\" would count what fills the shorter samples of {}",
                      spec::to_string(loss), target.name)
        .advise(fmt::format("return the loss from forward, which may take {}_mask or {}_lengths", target.name,
                            target.name));
  }
  if (target.pad == static_cast<double>(ignored_class)) return;
  throw Error::make(Fault::spec,
                    "model.loss = \"{}\" would take {}, which fills the shorter samples of {}, for a class",
                    spec::to_string(loss), target.pad, target.name)
      .advise(
          fmt::format("set data.pad_values = [\"{}={}\"]: the loss ignores this target", target.name, ignored_class));
}

}  // namespace

void UsersModel::find_target(const DataShape& shape, const std::string& second_input) {
  if (gives_loss()) return;
  if (const auto* named = std::get_if<NamedShape>(&shape)) {
    const auto found = std::ranges::find(named->fields, loss_target_, &NamedShape::NamedField::name);
    if (loss_target_.empty() || found == named->fields.end()) {
      throw Error::make(Fault::spec, "model.loss = \"{}\" needs model.loss_target, the target array",
                        spec::to_string(loss_))
          .advise("name a dataset of the HDF5 file");
    }
    has_ragged_target_ = found->is_ragged;
    if (has_ragged_target_) require_ignored_pad(loss_, *found);
    predictions_ = has_ragged_target_ ? 1 : predictions_for(loss_, {found->type, found->dims});
    target_ = {.name = loss_target_, .field = static_cast<size_t>(found - named->fields.begin()), .is_named = true};
    return;
  }
  if (!loss_target_.empty() && loss_target_ != second_input)
    throw Error::make(Fault::spec, "model.loss_target: {} is not the name of the data's labels", loss_target_)
        .advise("remove it: the loss uses the labels");
  predictions_ = predictions_for(loss_, offered_target(shape));
  target_ = {.name = "labels", .field = 1};
}

namespace {

// Returns classes as int64, needed by the losses, where the data stores classes in smaller types; returns probabilities
// of float64 as float32, for a loss of float32.
torch::Tensor as_target(const torch::Tensor& target) {
  if (target.scalar_type() == torch::kDouble) return target.to(torch::kFloat);
  return at::isIntegralType(target.scalar_type(), /*includeBool=*/false) ? target.to(torch::kLong) : target;
}

Error unfit_target(spec::Loss loss, const torch::Tensor& output, const torch::Tensor& target, const std::string& rule) {
  return Error::make(Fault::spec, "model.loss = \"{}\": the model's first output is [{}], the target [{}]; {}",
                     spec::to_string(loss), fmt::join(output.sizes(), ", "), fmt::join(target.sizes(), ", "), rule);
}

void require_probabilities(spec::Loss loss, const torch::Tensor& output, const torch::Tensor& target) {
  if (loss == spec::Loss::nll)
    throw unfit_target(loss, output, target, "and it is not of whole numbers, as classes are")
        .advise("store the classes as integers; for probabilities of classes return logits, with \"cross_entropy\"");
  if (output.dim() > 1 && output.sizes() == target.sizes()) return;
  throw unfit_target(loss, output, target, "a target that is not of whole numbers is the probabilities of all classes")
      .advise("store classes as integers, and probabilities of classes in the sizes of the output");
}

// Checks the target of cross_entropy and nll. The target is classes, with the sizes of the output without the output's
// second dimension, the classes; or for cross_entropy probabilities of classes, with the sizes of the output.
void require_classes(spec::Loss loss, const torch::Tensor& output, const torch::Tensor& target) {
  if (!at::isIntegralType(target.scalar_type(), /*includeBool=*/true))
    return require_probabilities(loss, output, target);
  std::vector<int64_t> wanted = output.sizes().vec();
  if (wanted.size() > 1) {
    wanted.erase(wanted.begin() + 1);
    if (target.sizes() == at::IntArrayRef(wanted)) return;
  }
  if (loss == spec::Loss::cross_entropy && output.dim() > 1 && target.sizes() == output.sizes())
    throw unfit_target(loss, output, target, "probabilities of classes must not be of whole numbers")
        .advise("store them as float32, or store the classes");
  const bool is_last = output.dim() > 2 && target.sizes() == output.sizes().slice(0, output.dim() - 1);
  throw unfit_target(loss, output, target, "the second dimension of the output must be that of the classes")
      .advise(is_last ? "return logits.transpose(1, -1), or compute the loss in the module"
                      : "return [samples, classes], or [samples, classes, ...] for a target of [samples, ...]");
}

void require_same_sizes(spec::Loss loss, const torch::Tensor& output, const torch::Tensor& target) {
  if (output.sizes() == target.sizes()) return;
  throw unfit_target(loss, output, target, "both must have the same sizes")
      .advise("reshape the output in the module, or compute the loss there");
}

}  // namespace

torch::Tensor UsersModel::loss_of(const std::vector<torch::Tensor>& outputs, const torch::Tensor& target,
                                  int64_t reduction) {
  const torch::Tensor& output = outputs.front();
  if (loss_ == spec::Loss::cross_entropy || loss_ == spec::Loss::nll) require_classes(loss_, output, target);
  if (loss_ == spec::Loss::mse || loss_ == spec::Loss::bce_with_logits) require_same_sizes(loss_, output, target);
  require_weights(output);
  switch (loss_) {
    case spec::Loss::output:
      if (output.numel() != 1) {
        throw Error::make(Fault::spec, "the model's first output is [{}], not one number, so it is not a loss",
                          fmt::join(output.sizes(), ", "))
            .advise("let the module return its loss first, or set model.loss");
      }
      return (output.dim() == 0 ? output : output.reshape({})).to(torch::kFloat);
    case spec::Loss::cross_entropy:
      return at::cross_entropy_loss(output, as_target(target), class_weights(output), reduction, ignored_class,
                                    reduction == at::Reduction::None ? 0 : label_smoothing_);
    case spec::Loss::mse:
      return at::mse_loss(output, target.to(output.scalar_type()), reduction);
    case spec::Loss::bce_with_logits:
      return at::binary_cross_entropy_with_logits(output, target.to(output.scalar_type()), {}, class_weights(output),
                                                  reduction);
    case spec::Loss::nll:
      return at::nll_loss_nd(output, as_target(target), class_weights(output), reduction, ignored_class);
  }
  throw Error(Fault::bug, "unknown loss");
}

namespace {

// "; the mini-batch has ids -3 to 1999, …"; whole numbers alone.
std::string values_text(const std::vector<InputSource>& sources, const MiniBatch& batch) {
  std::vector<std::string> texts;
  for (const InputSource& source : sources) {
    const torch::Tensor& tensor = tensor_of(batch, source);
    if (tensor.numel() == 0 || !at::isIntegralType(tensor.scalar_type(), /*includeBool=*/false)) continue;
    texts.push_back(
        fmt::format("{} {} to {}", source.name, tensor.min().item<int64_t>(), tensor.max().item<int64_t>()));
  }
  return texts.empty() ? "" : fmt::format("; the mini-batch has {}", fmt::join(texts, ", "));
}

}  // namespace

template <typename Body>
auto UsersModel::telling_values(const MiniBatch& batch, Body&& body) const {
  const auto with_values = [&](const Error& error) {
    if (error.message().find(label_out_of_range) == std::string::npos) return error;
    std::vector<InputSource> told = sources();
    const auto is_target = [&](const InputSource& source) { return source.name == target_->name; };
    if (target_ && std::ranges::none_of(told, is_target)) told.push_back(*target_);
    return Error(error.fault(), error.message() + values_text(told, batch))
        .advise("correct the data, or use a model that has a class for each value")
        .caused_by(error.cause());
  };
  try {
    return body();
  } catch (const c10::Error& error) {
    throw with_values(from_torch(error));
  } catch (const Error& error) {
    throw with_values(error);
  }
}

namespace {

// Mixed images come with probabilities of classes in the place of labels.
void require_images_alone(const std::vector<InputSource>& sources) {
  const auto is_labels = [](const InputSource& source) { return !source.is_named && source.field == 1; };
  if (std::ranges::none_of(sources, is_labels)) return;
  throw Error(
      Fault::spec,
      "the model takes the labels as an input; data.mixup and data.cutmix make probabilities of classes of them")
      .advise("let the model take the images alone and return logits, with model.loss = \"cross_entropy\"");
}

void require_same_classes(const torch::Tensor& output, const torch::Tensor& probabilities) {
  if (output.sizes() == probabilities.sizes()) return;
  throw Error::make(Fault::spec,
                    "data.mixup and data.cutmix make probabilities of {} classes, and the model's first output is [{}]",
                    probabilities.size(1), fmt::join(output.sizes(), ", "))
      .advise("set model.classes to the number of the model's classes; the output must be [samples, classes]");
}

}  // namespace

void UsersModel::require_weights(const torch::Tensor& output) const {
  const size_t given = loss_wanted().class_weights.size();
  if (given == 0) return;
  const bool by_element = loss_ == spec::Loss::bce_with_logits;  // pos_weight: broadcast over the last dimension
  const int64_t wanted = by_element ? output.size(-1) : output.size(1);
  if (static_cast<int64_t>(given) == wanted || (by_element && given == 1)) return;
  throw Error::make(Fault::spec, "train.loss_weights has {} weights, but the model's output [{}] has {} {}", given,
                    fmt::join(output.sizes(), ", "), wanted, by_element ? "logits a sample" : "classes")
      .advise("give one weight for each");
}

void UsersModel::give_terms(const std::vector<torch::Tensor>& outputs) {
  const std::vector<std::string>& terms = loss_wanted().terms;
  if (outputs.size() <= terms.size() && !terms.empty()) {
    throw Error::make(Fault::spec, "in training the model gives {} outputs, and train.terms names {} behind the first",
                      outputs.size(), terms.size())
        .advise("return the terms from forward in train() mode, behind the loss or the prediction");
  }
  for (size_t i = 0; i < terms.size(); ++i) {
    if (outputs[i + 1].numel() != 1) {
      throw Error::make(Fault::spec, "term {}: the model's output {} in training is [{}], not one number", terms[i],
                        i + 2, fmt::join(outputs[i + 1].sizes(), ", "))
          .advise("average it in the module, or leave it out of train.terms");
    }
    give(outputs[i + 1]);
  }
}

torch::Tensor UsersModel::training_loss(const std::vector<torch::Tensor>& outputs, const torch::Tensor& target) {
  if (!loss_wanted().sums) return loss_of(outputs, target, at::Reduction::Mean);
  if (gives_loss()) {
    const auto named = std::ranges::find(loss_wanted().terms, spec::weight_term);
    const torch::Tensor weight = results()[static_cast<size_t>(named - loss_wanted().terms.begin())];
    give(weight);
    return loss_of(outputs, {}, at::Reduction::Mean) * weight;
  }
  const bool has_classes = loss_ == spec::Loss::cross_entropy || loss_ == spec::Loss::nll;
  const torch::Tensor sum = loss_of(outputs, target, at::Reduction::Sum);
  give(has_classes ? total_weight(as_target(target), class_weights(outputs.front()))
                   : torch::scalar_tensor(target.numel(), torch::dtype(torch::kFloat).device(sum.device())));
  return sum.to(torch::kFloat);
}

torch::Tensor UsersModel::compute_loss(const MiniBatch& batch) {
  const bool is_mixed = loss_ == spec::Loss::cross_entropy && target_ && !target_->is_named &&
                        batch.target.is_floating_point() && batch.target.dim() == 2;
  if (is_mixed) require_images_alone(sources());
  torch::Tensor loss = telling_values(batch, [&] {
    const std::vector<torch::Tensor> given = train_outputs(batch);
    if (is_mixed) require_same_classes(given.front(), batch.target);
    give_terms(given);
    return training_loss(given, target_ ? tensor_of(batch, *target_) : torch::Tensor());
  });
  if (!loss.requires_grad() && at::GradMode::is_enabled())
    throw Error(Fault::spec, "the model's loss depends on no parameter that is trained")
        .advise("use a module whose forward returns its loss (or, with model.loss, its prediction) first");
  return loss;
}

void UsersModel::add_outputs(const std::vector<torch::Tensor>& outputs, int64_t samples,
                             std::vector<torch::Tensor>& columns) const {
  if (outputs.size() <= wanted().outputs.size()) {
    throw Error::make(Fault::spec, "the model gives {} outputs, and train.metrics names {} behind the first",
                      outputs.size(), wanted().outputs.size())
        .advise("return the metrics from forward in eval() mode, behind the loss or the prediction");
  }
  for (size_t i = 0; i < wanted().outputs.size(); ++i) {
    const torch::Tensor& output = outputs[i + 1];
    const bool is_one = output.numel() == 1;
    if (!is_one && output.numel() != samples) {
      throw Error::make(Fault::spec,
                        "metric {}: the model's output {} is [{}]: a number for each of the {} samples, or one for "
                        "the mini-batch, is wanted",
                        wanted().outputs[i], i + 2, fmt::join(output.sizes(), ", "), samples)
          .advise("average it in the module, or leave it out of train.metrics");
    }
    columns.push_back(output.to(torch::kFloat).reshape(-1).expand({samples}));
  }
}

EvaluatedBatch UsersModel::compute_evaluation(const MiniBatch& batch) {
  return telling_values(batch, [&] { return evaluation_of(batch); });
}

EvaluatedBatch UsersModel::evaluation_of(const MiniBatch& batch) {
  require_evaluation();
  const std::vector<torch::Tensor> given = evaluation_outputs(batch);
  EvaluatedBatch evaluation = evaluation_of_outputs(given, batch);
  add_outputs(given, batch.size(), evaluation.columns);
  if (wants_outputs()) evaluation.outputs = rows_of(given, batch);
  return evaluation;
}

std::vector<std::pair<std::string, torch::Tensor>> UsersModel::rows_of(const std::vector<torch::Tensor>& outputs,
                                                                       const MiniBatch& batch) const {
  std::vector<std::pair<std::string, torch::Tensor>> rows;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const torch::Tensor& output = outputs[i];
    const bool by_sample = output.dim() > 0 && output.size(0) == batch.size();
    if (!by_sample && output.numel() != 1) {
      throw Error::make(
          Fault::spec,
          "the model's output {} in evaluation is [{}]: one number, or a first dimension of the {} samples, "
          "is wanted",
          i + 1, fmt::join(output.sizes(), ", "), batch.size())
          .advise("return it with the samples first");
    }
    rows.emplace_back(i == 0 ? "output" : fmt::format("output{}", i),
                      by_sample ? output : output.reshape(-1).expand({batch.size()}));
  }
  if (target_ || batch.fields.empty()) rows.emplace_back("labels", target_ ? tensor_of(batch, *target_) : batch.target);
  return rows;
}

EvaluatedBatch UsersModel::evaluation_of_outputs(const std::vector<torch::Tensor>& outputs, const MiniBatch& batch) {
  const int64_t samples = batch.size();
  const torch::Tensor none = torch::zeros({samples}, torch::kLong);
  if (gives_loss()) return {loss_of(outputs, {}, at::Reduction::Mean).expand({samples}), none, none};
  const torch::Tensor& target = tensor_of(batch, *target_);
  const torch::Tensor losses = loss_of(outputs, target, at::Reduction::None);
  if (loss_ == spec::Loss::cross_entropy || loss_ == spec::Loss::nll) {
    const auto by_prediction = [](const torch::Tensor& values) {
      return values.movedim(1, -1).reshape({-1, values.size(1)});
    };
    const torch::Tensor classes =
        target.is_floating_point() ? by_prediction(target).argmax(1) : as_target(target).reshape(-1);
    std::optional<torch::Tensor> weights = class_weights(outputs.front());
    if (weights && target.is_floating_point()) weights = torch::ones_like(*weights);  // torch's mean is by number
    EvaluatedBatch evaluated =
        evaluation_of_classes(wanted(), by_prediction(outputs.front()), classes, losses, samples, weights);
    if (!has_ragged_target_) return evaluated;
    evaluated.losses = losses.to(torch::kFloat).reshape({samples, -1}).sum(1);
    if (wanted().target_weight)
      evaluated.columns[static_cast<size_t>(wanted().weight_column())] =
          weights_of_targets(classes, *weights).to(torch::kFloat).view({samples, -1}).sum(1);
    return evaluated;
  }
  const torch::Tensor means = losses.to(torch::kFloat).reshape({samples, -1}).mean(1);
  if (loss_ == spec::Loss::mse) return {means, none, none};
  const torch::Tensor hits = outputs.front().gt(0).eq(target.gt(0.5));  // the likelier of two classes
  return {means, hits.reshape({samples, -1}).sum(1), torch::full({samples}, predictions_, torch::kLong)};
}

}  // namespace estrain::model
