#pragma once
// The Python interpreter of a user's module, as seen by a worker. The worker's library runs inside this interpreter
// (core/engine/python/interpreter.h). The worker calls all functions on the interpreter's main thread, without the
// interpreter's lock.
//
// An exception of the user's code is Fault::spec: the exception in one line, then Python's traceback.

#include <c10/core/Device.h>
#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace estrain::model {

// A module as built by the user's function.
struct PythonModule {
  struct Named {
    std::string name;  // of state_dict
    torch::Tensor tensor;
  };
  struct Argument {
    std::string name;
    bool is_required = false;  // without a default
  };
  std::vector<std::string> modules;  // names, in the order of named_modules()
  // Tied tensors stand under each of their names.
  std::vector<Named> parameters;
  std::vector<Named> buffers;
  std::vector<Named> constants;             // buffers with persistent=False
  std::vector<std::string> kept_elsewhere;  // tensors in attributes outside these lists
  std::vector<Argument> arguments;          // of forward, possible by position, without self
  std::vector<std::string> by_name;         // of forward, possible by name alone
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

  // Moves the module to a GPU by module.to(). Parameters and buffers stay the tensors that they are: their values move.
  virtual void move_to(c10::Device gpu) = 0;

  // From now on `guard` runs each call of the user's code: forward() and backward().
  using Guard = std::function<void(const std::function<void()>& call)>;
  virtual void guard_calls(Guard guard) = 0;

  // Sets how forward() passes inputs from now on: by these names, or by position.
  virtual void pass_by_name(const std::vector<std::string>& names) = 0;
  virtual void pass_by_position() = 0;

  // Calls the module. Returns the outputs, flattened; at least one. `trains`: in the mode left by build(); else in
  // eval() mode, and back to the mode of build().
  virtual std::vector<torch::Tensor> forward(const std::vector<torch::Tensor>& inputs, bool trains) = 0;

  // Runs loss.backward() in Python, for Python's traceback. Afterwards a buffer replaced by forward has the values of
  // the new tensor. Throws Fault::spec where forward wrote or replaced a parameter or a constant.
  virtual void backward(const torch::Tensor& loss) = 0;
  // backward() for the first mini-batch: constants written or replaced by forward become buffers. Returns their names.
  virtual std::vector<std::string> first_backward(const torch::Tensor& loss) = 0;

  // Returns the user's calls of functions of torch.distributed in the first mini-batch: "net.py:7 calls
  // is_initialized".
  virtual std::vector<std::string> calls_to_ranks() = 0;

  // Makes these constants buffers, which forward may write. Call this before the first mini-batch.
  virtual void keep(const std::vector<std::string>& constants) = 0;
  // Sets whether compiled code runs as written instead: otherwise the portable kernels and a scan of operators do not
  // see its operators.
  virtual void run_eagerly(bool eagerly) = 0;

  // Sets whether running modules become current_block() (model.h). This costs time: for a scan of operators.
  virtual void tell_modules(bool tells) = 0;

  // Returns the files of the user's own modules imported by now, by the names below the folder of the user's file,
  // without the user's file.
  virtual std::vector<std::string> imported() = 0;

  // The random streams of Python's `random` and of numpy: states of stream_bytes() bytes.
  virtual size_t stream_bytes() const = 0;
  virtual void seed_streams(uint64_t seed) = 0;
  virtual void load_streams(const std::byte* state) = 0;
  virtual void store_streams(std::byte* state) = 0;
};

}  // namespace estrain::model
