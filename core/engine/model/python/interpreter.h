#pragma once
// The Python interpreter that a user's module lives in, as a worker sees it. The worker's library runs inside that
// interpreter (core/engine/python/interpreter.h); everything here is called on its main thread, without the
// interpreter's lock.
//
// An exception of the user's code is Fault::spec: the exception in one line, then Python's traceback.

#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace estrain::model {

// A module as its function built it.
struct PythonModule {
  struct Named {
    std::string name;  // of state_dict
    torch::Tensor tensor;
  };
  struct Argument {
    std::string name;
    bool is_required = false;  // it has no default
  };
  std::vector<std::string> modules;  // names, in the order of named_modules()
  // Tied tensors stand under each of their names.
  std::vector<Named> parameters;
  std::vector<Named> buffers;
  std::vector<Named> constants;             // buffers with persistent=False
  std::vector<std::string> kept_elsewhere;  // tensors in attributes that are neither
  std::vector<Argument> arguments;          // of forward that may be given by position, without self
  std::vector<std::string> by_name;         // and those that may be given by name alone
  bool takes_any_name = false;              // forward has **arguments
  std::vector<std::string> synced;          // modules of the class SyncBatchNorm
};

class Interpreter {
 public:
  Interpreter() = default;
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;
  virtual ~Interpreter() = default;

  // Imports the user's file, seeds torch, random and numpy with `seed`, and calls the function. Throws Fault::spec
  // where the function is missing or returns no module.
  virtual PythonModule build(uint64_t seed) = 0;

  // How forward() passes its inputs from now on: by these names, or by position.
  virtual void pass_by_name(const std::vector<std::string>& names) = 0;
  virtual void pass_by_position() = 0;

  // Calls the module: its outputs, flattened; at least one. `trains`: in the mode that build() left it in, else in
  // eval() mode, and back.
  virtual std::vector<torch::Tensor> forward(const std::vector<torch::Tensor>& inputs, bool trains) = 0;

  // loss.backward() in Python, for its traceback. Afterwards a buffer that forward replaced by another tensor has that
  // one's values. Throws Fault::spec where forward wrote a parameter or a constant, or replaced one.
  virtual void backward(const torch::Tensor& loss) = 0;
  // The same for the first mini-batch: constants that forward wrote or replaced are buffers from now on, and named.
  virtual std::vector<std::string> first_backward(const torch::Tensor& loss) = 0;

  // Where the user's code called functions of torch.distributed in the first mini-batch: "net.py:7 calls
  // is_initialized".
  virtual std::vector<std::string> calls_to_ranks() = 0;

  // From now on these constants are buffers, which forward may write. Before the first mini-batch.
  virtual void keep(const std::vector<std::string>& constants) = 0;
  // Whether compiled code runs as it is written instead: the portable kernels and a scan of operators do not see it
  // else.
  virtual void run_eagerly(bool eagerly) = 0;

  // Whether the modules that run become current_block() (model.h). It costs time: for a scan of operators.
  virtual void tell_modules(bool tells) = 0;

  // The files of the user's own modules that have been imported by now, by their names below the folder of the user's
  // file, which is none of them.
  virtual std::vector<std::string> imported() = 0;

  // The random streams of Python's `random` and of numpy: states of this many bytes.
  virtual size_t stream_bytes() const = 0;
  virtual void seed_streams(uint64_t seed) = 0;
  virtual void load_streams(const std::byte* state) = 0;
  virtual void store_streams(std::byte* state) = 0;
};

}  // namespace estrain::model
