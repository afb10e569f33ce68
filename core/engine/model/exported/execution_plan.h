#pragma once
// An ExecutionPlan is an exported program (core/formats/program/program.h), ready to run: each call's operator is
// looked up in LibTorch's dispatcher, and the call's constants and lists are prepared, once. A run makes these calls
// below autograd, autocast and the portable kernels, like eager Python. A value is released after the last call that
// uses the value, like a variable in Python.
//
// The state holds parameters and buffers in C order. If the file has a stored tensor in another order (channels_last, a
// transposed weight), a run first copies the tensor into the file's order, so that each operator gets the tensor as in
// Python; the gradient is copied back.
//
// A plan runs on one device, given when the plan is made: every device that the program names becomes this device. On
// another kind of device than at the export, LibTorch may give results another order in memory (attention on a GPU).
// There a view() runs as a reshape(), if nothing later writes to the memory that the view would share; as_strided()
// throws if its operand is not in memory as at the export.
//
// A plan calls only ATen's operators, and no operator that reads or writes files.

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <torch/types.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/engine/model/exported/operand.h"
#include "core/engine/model/exported/program_blocks.h"
#include "core/formats/program/program.h"

namespace estrain::model {

// Values that exist before a run: parameters, buffers and constants, by number.
using StoredValues = std::map<int, torch::Tensor>;

// MemoryGroups are groups of a program's values that may share memory, with the last call that writes to each value.
class MemoryGroups {
 public:
  explicit MemoryGroups(int values);

  void join(int a, int b) { parents_[at(name_of(a))] = name_of(b); }
  void note_write(int value, size_t call);
  bool is_written_after(int value, size_t call) const;
  std::vector<int> group_of(int value) const;  // with the value itself

 private:
  static size_t at(int value) { return static_cast<size_t>(value); }
  int name_of(int value) const;

  std::vector<int> parents_;  // of each value; a value that is its own parent names a group
  std::map<int, size_t> writes_;
};

class ExecutionPlan {
 public:
  enum class Use {
    training,    // unchanged
    evaluation,  // unchanged: a program exported for evaluation
    // A program exported for training, with dropout off and running statistics in batch norm, as after Module.eval().
    frozen,
  };

  // `program` must outlive the plan. Throws Fault::mismatch naming an operator or argument missing in this LibTorch;
  // Fault::spec, with the user's line, if the program cannot be frozen; Fault::corrupt.
  ExecutionPlan(const program::Program& program, Use use, const StoredValues& stored, c10::Device device);

  // Returns the program's outputs for its inputs, in the program's order. Throws c10::Error as LibTorch does, with the
  // user's line and module before LibTorch's message.
  std::vector<torch::Tensor> run(const std::vector<torch::Tensor>& inputs);

  // Returns the strides of a stored tensor that a run reorders; returns nothing for a tensor used in C order.
  std::vector<int64_t> strides_of(const torch::Tensor& stored) const;

  // Numbers of the stored values that a run may modify.
  const std::set<int>& written() const { return written_; }

  // Returns the blocks of a program for training. A run tells a BlockWatch of the blocks (engine/model/block_watch.h).
  const std::vector<ProgramBlock>& blocks();

  // The numbers of calls that depend on Module.train() (dropout, batch norm): in training mode, and in evaluation mode.
  int training_calls() const { return training_calls_; }
  int evaluation_calls() const { return evaluation_calls_; }

 private:
  using Arithmetic = c10::IValue (*)(const std::vector<c10::IValue>&);
  struct Reordered {
    int value;
    torch::Tensor stored;  // in C order
    std::vector<int64_t> strides;
    int uses;  // in calls
    std::string name;
  };
  struct PlannedCall {
    std::optional<c10::OperatorHandle> op;
    Arithmetic arithmetic = nullptr;
    std::vector<Operand> operands;
    std::vector<program::Call::Result> results;
    std::vector<int> last;  // values without a later use
    size_t modes = 0;
    size_t training_at = 0;  // for batch norm: the operand with the training flag; 0: another operator
    std::optional<std::vector<program::SymInt>> strides;  // of the first operand, where the result depends on them
    program::SymInt offset;
    std::string place;
    std::string name;
  };

  void find_reordered();
  void reorder(const Reordered& one);
  void add(const program::Call& call);
  void add_operator(const program::Call& call, PlannedCall& step);
  bool freeze(const program::Call& call, PlannedCall& step);
  void note_mode(PlannedCall& step);
  void note_writes(const program::Call& call, const PlannedCall& step);
  void let_views_copy();
  void find_last_uses();
  bool is_elsewhere() const;
  UsedCall use_of(const program::Call& call, const PlannedCall& step) const;
  void tell_of_block(size_t call);
  void require_strides(const PlannedCall& step) const;
  void require_values_per_channel(const PlannedCall& step) const;
  void make(PlannedCall& step);
  void take_results(const PlannedCall& step);

  const program::Program& program_;
  const Use use_;
  const c10::Device device_;
  std::vector<PlannedCall> steps_;
  std::vector<Reordered> reordered_;
  std::vector<c10::IValue> values_;   // by number
  std::vector<bool> stays_;           // true: a stored value, never released
  std::vector<std::set<int>> roots_;  // for each value: stored values that may share memory with the value
  MemoryGroups memory_;
  std::vector<std::pair<int, int>> mutations_;  // buffer, and the buffer's value after the calls
  std::set<int> written_;
  std::vector<ProgramBlock> blocks_;  // empty: not asked for yet
  std::vector<c10::IValue> stack_;
  int training_calls_ = 0, evaluation_calls_ = 0;
};

}  // namespace estrain::model
