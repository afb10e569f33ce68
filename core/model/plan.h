#pragma once
// An exported program (core/program/program.h) made ready to run: each call's operator looked up in LibTorch's
// dispatcher, its constants and lists prepared, once. To run it is to make those calls, below autograd, autocast and
// the portable kernels as eager Python makes them; a value is let go after the last call that takes it, as Python lets
// go of a variable.
//
// Only ATen's operators are called, and none that reads or writes files.

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <torch/types.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/model/operand.h"
#include "core/program/program.h"

namespace estrain::model {

// Values that lie in memory before a run: parameters, buffers and constants, by their numbers.
using StoredValues = std::map<int, torch::Tensor>;

class Plan {
 public:
  enum class Use {
    training,    // as it stands
    evaluation,  // as it stands: a program exported for evaluation
    // A program exported for training: dropout off, batch norm with its running statistics, as Module.eval() has them.
    frozen,
  };

  // `program` must outlive the plan. Throws Fault::mismatch naming an operator or argument that this LibTorch does not
  // have; Fault::spec for what cannot be frozen, with the user's line; Fault::corrupt.
  Plan(const program::Program& program, Use use, const StoredValues& stored);

  // The program's outputs for its inputs, in its order; `on` is where they lie. Throws c10::Error as LibTorch does, its
  // message behind the user's line and module.
  std::vector<torch::Tensor> run(const std::vector<torch::Tensor>& inputs);

  // Numbers of the stored values that a run may write to.
  const std::set<int>& written() const { return written_; }

  // Calls that Module.train() decides on (dropout, batch norm): how many are on, how many off.
  int training_calls() const { return training_calls_; }
  int evaluation_calls() const { return evaluation_calls_; }

 private:
  using Arithmetic = c10::IValue (*)(const std::vector<c10::IValue>&);
  struct Step {
    std::optional<c10::OperatorHandle> op;
    Arithmetic arithmetic = nullptr;
    std::vector<Operand> operands;
    std::vector<program::Call::Result> results;
    std::vector<int> last;  // values that no later step takes
    size_t modes = 0;
    size_t training_at = 0;  // of batch norm: the operand that says whether it trains; 0: another operator
    std::string place;
    std::string name;
  };

  void add(const program::Call& call);
  void add_operator(const program::Call& call, Step& step);
  bool freeze(const program::Call& call, Step& step);
  void note_mode(Step& step);
  void note_writes(const program::Call& call, const Step& step);
  void find_last_uses();
  void require_values_per_channel(const Step& step) const;
  void make(Step& step);
  void take_results(const Step& step);

  const program::Program& program_;
  const Use use_;
  std::vector<Step> steps_;
  std::vector<c10::IValue> values_;             // by number
  std::vector<bool> stays_;                     // stored: not let go
  std::vector<std::set<int>> roots_;            // of each value: stored ones whose memory it may show
  std::vector<std::pair<int, int>> mutations_;  // buffer, and the value that it takes after the calls
  std::set<int> written_;
  std::vector<c10::IValue> stack_;
  int training_calls_ = 0, evaluation_calls_ = 0;
};

}  // namespace estrain::model
