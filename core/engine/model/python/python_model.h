#pragma once
// A user's own network in Python: a module returned by a user's function (`model.file = "net.py:build"`), trained
// unchanged. A PythonModel is for models beyond export: control flow that depends on values, an autograd.Function with
// a backward pass of its own.
//
// Parameters and buffers have Python's names, order and values, and are Python's own tensors, bound to the state's
// memory. A buffer with persistent=False is a constant if the first mini-batch leaves the buffer alone. Values kept
// elsewhere in the module (an attribute, a global variable) are no part of the state: an EST must not find another
// EST's values there.
//
// Inputs. forward gets named arrays by name, as far as it has arguments of these names. For images, vectors and text
// the first argument is the sample. A second argument without a default, or for the model's own loss, is the target.
// Arguments are copies: forward may keep them. forward returns a tensor, tuple, list or dictionary; None is left out.
//
// Evaluation by the same forward, in eval() mode.

#include <memory>
#include <vector>

#include "core/engine/model/python/interpreter.h"
#include "core/engine/model/users_model.h"

namespace estrain::model {

class PythonModel : public UsersModel {
 public:
  // Throws as build_python_model().
  PythonModel(const spec::ModelSection& section, double label_smoothing, const DataShape& shape,
              Interpreter& interpreter, uint64_t seed);

  // Moves the module to the device that trains the module. Call this after keep_constants(), before try_out(). Throws
  // Fault::mismatch where a parameter or buffer stays behind, naming it; as Interpreter::move_to().
  void move_to(c10::Device device);

  // Runs forward and backward of a mini-batch, and an evaluation if the job has any, before the model is bound to the
  // state: code that writes to its parameters writes to its own tensors, and code that raises does so before the job
  // begins. Restores the buffers. Call this once. Throws as loss(), Interpreter::backward() and build_python_model().
  void try_out(const MiniBatch& batch, bool evaluates);

  // Makes the constants buffers: a part of the state from now on. Call this before try_out(). Returns the names of
  // tensors that stay outside: of a type that the state cannot hold, or kept elsewhere than in buffers.
  std::vector<std::string> keep_constants();

  void require_evaluation() const override {}
  void require_outputs() const override {}  // outputs become known in a run
  std::vector<std::string> notes() const override { return notes_; }
  std::vector<int64_t> gradient_strides(const torch::Tensor&) const override { return {}; }

 private:
  void make_modules(const PythonModule& module);
  void add_buffer(const PythonModule::Named& buffer);
  void bind(const PythonModule& module, const DataShape& shape);
  void bind_by_name(const PythonModule& module, const NamedShape& shape);
  void bind_by_position(const PythonModule& module);
  std::vector<torch::Tensor> outputs(const MiniBatch& batch, bool trains);
  std::vector<torch::Tensor> train_outputs(const MiniBatch& batch) override { return outputs(batch, true); }
  std::vector<torch::Tensor> evaluation_outputs(const MiniBatch& batch) override { return outputs(batch, false); }
  const std::vector<InputSource>& sources() const override { return sources_; }

  Interpreter& interpreter_;
  c10::Device device_ = c10::kCPU;
  std::vector<PythonModule::Named> constants_;
  std::vector<std::string> kept_elsewhere_;
  std::vector<InputSource> sources_;
  std::vector<std::string> notes_;
};

// Builds the module in the interpreter. The interpreter must outlive the module. Throws as Interpreter::build();
// Fault::mismatch for a parameter that is not contiguous float32 on the CPU, or a buffer that the state cannot hold;
// Fault::spec if forward and data do not fit, naming the argument.
std::shared_ptr<PythonModel> build_python_model(const spec::ModelSection& section, double label_smoothing,
                                                const DataShape& shape, Interpreter& interpreter, uint64_t seed);

}  // namespace estrain::model
