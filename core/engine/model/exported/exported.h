#pragma once
// A user's own network: an exported PyTorch program (core/formats/program/program.h), trained unchanged.
//
// Parameters and buffers have the names, order and initial values of the file. Parameters frozen in the file stay
// frozen. A buffer outside the state_dict is a constant, and not part of the state, if no call writes to the buffer.
//
// Inputs. Named arrays go to the program's inputs with the same names. For images, vectors and text, the first input
// gets the sample, a second input the target. A ragged array needs an input whose second dimension is dynamic. If the
// program's types are wider, values are widened: smaller integers to int64, integers to bool (non-zero), bool to
// integers, float32 to float64.
//
// Device. Constants are on the device that runs the model from the start; parameters and buffers are moved there by
// whoever binds them to the state. A program takes this device wherever it names one (execution_plan.h): an export does
// not tell x.cpu() or device="cpu" from device=x.device on a CPU.
//
// Evaluation uses the program exported for evaluation, or the training program, frozen (ExecutionPlan::Use::frozen).
// Losses and metrics: users_model.h.

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/engine/model/data_shape.h"
#include "core/engine/model/exported/execution_plan.h"
#include "core/engine/model/users_model.h"
#include "core/job/spec/job_spec.h"

namespace estrain::model {

struct ProgramFiles {
  const spec::ModelSection& section;
  std::span<const std::byte> program;
  std::span<const std::byte> evaluation;  // empty: no file
  double label_smoothing = 0;
  spec::Precision precision = spec::Precision::fp32;
  c10::Device device = c10::kCPU;  // which runs the model
  // Called for parts of the files that have been read, so that their pages leave the memory, and a load needs memory
  // for the weights once. Null: never.
  void (*release)(std::span<const std::byte> part) = nullptr;
};

class Exported : public UsersModel {
 public:
  Exported(const ProgramFiles& files, const DataShape& shape, bool draws);

  void require_evaluation() const override {
    if (no_evaluation_) throw Error(*no_evaluation_);
  }
  void require_outputs() const override;
  std::vector<std::string> notes() const override;
  std::vector<int64_t> gradient_strides(const torch::Tensor& parameter) const override;

 private:
  struct RunnableProgram {  // a program, ready to run
    std::unique_ptr<program::Program> program;
    std::unique_ptr<ExecutionPlan> plan;
    std::vector<InputSource> sources;
    program::Range samples;              // allowed number in a mini-batch
    std::vector<std::string> lengths{};  // of each source: the symbol of a ragged array's length; empty: not ragged
  };

  void make_modules(const program::Program& program);
  void make_evaluation(const ProgramFiles& files, const DataShape& shape, const StoredValues& stored);
  void bind(RunnableProgram& part, const DataShape& shape);
  // Throws Fault::spec if the program does not take the lengths of the mini-batch's ragged arrays.
  void require_lengths(const RunnableProgram& part, const std::vector<torch::Tensor>& inputs) const;
  std::vector<torch::Tensor> outputs(RunnableProgram& part, const MiniBatch& batch);
  // Where the outputs have names: those named by `wanted` (the key `key`) follow the first in this order, then the
  // others. Throws Fault::spec for a name that the outputs lack.
  std::vector<torch::Tensor> in_order(const RunnableProgram& part, std::vector<torch::Tensor> outputs,
                                      const std::vector<std::string>& wanted, const char* key) const;
  std::vector<torch::Tensor> train_outputs(const MiniBatch& batch) override {
    return in_order(training_, outputs(training_, batch), loss_wanted().terms, "train.terms");
  }
  std::vector<torch::Tensor> evaluation_outputs(const MiniBatch& batch) override {
    return in_order(evaluation_, outputs(evaluation_, batch), wanted().outputs, "train.metrics");
  }
  const std::vector<InputSource>& sources() const override { return training_.sources; }

  RunnableProgram training_;
  RunnableProgram evaluation_;  // without a plan if evaluation is impossible; no_evaluation_ is the reason
  std::optional<Error> no_evaluation_;
};

// Reads and checks the programs, and builds the model in training mode. With `draws`, parameters and buffers have the
// file's values; otherwise they are uninitialised. Throws as program::read_program(); Fault::mismatch for another
// release of torch, an unknown operator, a type that the state cannot hold, an evaluation program of another model;
// Fault::spec if program and data do not fit, naming the input, or if the program was exported in eval() mode;
// Fault::corrupt for parameters with NaN or infinity.
std::shared_ptr<Exported> build_program(const ProgramFiles& files, const DataShape& shape, bool draws);

}  // namespace estrain::model
