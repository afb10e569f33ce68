#pragma once
// A user's own network: an exported PyTorch program (core/program/program.h), trained as it is.
//
// Parameters and buffers have the names, order and initial values of the file. Parameters frozen in the file stay
// frozen. A buffer outside the state_dict that no call writes is a constant, and not part of the state.
//
// Inputs. Named arrays go to the program's inputs with the same names. For images, vectors and text, the first input
// gets the sample, a second one the target. If the program's types are wider, values are widened: smaller integers to
// int64, integers to bool (non-zero), float32 to float64.
//
// Loss. Either the program's first output, one number; or torch.nn.functional's cross_entropy, mse_loss,
// binary_cross_entropy_with_logits or nll_loss of the first output and the target, with that function's defaults: the
// second dimension is the classes.
//
// Metrics. The evaluation program's outputs behind the first: a number for each sample, or one for the mini-batch,
// which then counts for each of its samples.
//
// Evaluation, by the program that was exported for it or by the same one, frozen (Plan::Use::frozen). A program that
// gives its loss is evaluated by mini-batches: its loss counts for each sample of the mini-batch, and there is no
// accuracy.

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/model/data_shape.h"
#include "core/model/model.h"
#include "core/model/plan.h"
#include "core/spec/job_spec.h"

namespace estrain::model {

struct ProgramFiles {
  const spec::ModelSection& section;
  std::span<const std::byte> program;
  std::span<const std::byte> evaluation;  // empty: none
  double label_smoothing = 0;
};

class Exported : public Model {
 public:
  // The tensor of a batch for an input.
  struct Source {
    std::string name;
    size_t field = 0;  // index in Batch::fields; otherwise 0 is the input, 1 the target
    bool is_named = false;
    std::optional<c10::ScalarType> widened{};  // target type, if widened
  };

  Exported(const ProgramFiles& files, const DataShape& shape, bool draws);

  // Throws the reason if this program cannot be evaluated.
  void require_evaluation() const {
    if (no_evaluation_) throw Error(*no_evaluation_);
  }

  // Throws Fault::spec where an evaluation gives fewer outputs than want_metrics() names.
  void require_outputs() const;

  // Predictions that an evaluation makes for a sample; 0: it tells no accuracy.
  int64_t predictions_per_sample() const { return predictions_; }

 private:
  struct Part {  // a program that is ready to run
    std::unique_ptr<program::Program> program;
    std::unique_ptr<Plan> plan;
    std::vector<Source> sources;
    program::Range samples;  // allowed number in a mini-batch
  };

  void make_modules(const program::Program& program);
  void make_evaluation(const ProgramFiles& files, const DataShape& shape, const StoredValues& stored);
  void bind(Part& part, const DataShape& shape);
  Source target_source(const program::Program& program, const DataShape& shape);
  std::vector<torch::Tensor> outputs(Part& part, const Batch& batch);
  torch::Tensor loss_of(const std::vector<torch::Tensor>& outputs, const torch::Tensor& target, int64_t reduction);

  // Runs `body`; where a value of the mini-batch is out of range, the error tells the values.
  template <typename Body>
  auto telling_values(const Batch& batch, Body&& body) const;
  void add_outputs(const std::vector<torch::Tensor>& outputs, int64_t samples,
                   std::vector<torch::Tensor>& columns) const;

  torch::Tensor compute_loss(const Batch& batch) override;
  Evaluation compute_evaluation(const Batch& batch) override;
  Evaluation evaluation_of(const Batch& batch);

  spec::Loss loss_;
  std::string loss_target_;
  double label_smoothing_;
  Part training_;
  Part evaluation_;  // without a plan if evaluation is impossible; no_evaluation_ is the reason
  std::optional<Error> no_evaluation_;
  std::optional<Source> target_;
  int64_t predictions_ = 0;
};

// Reads and checks the programs, and builds the model in training mode. With `draws`, its parameters and buffers have
// the file's values; otherwise they are uninitialised. Throws as program::read_program(); Fault::mismatch for another
// release of torch, an unknown operator, a type that the state cannot hold, an evaluation program of another model;
// Fault::spec if program and data do not fit, naming the input, or if the program was exported in eval() mode;
// Fault::corrupt for parameters with NaN or infinity.
std::shared_ptr<Exported> build_program(const ProgramFiles& files, const DataShape& shape, bool draws);

}  // namespace estrain::model
