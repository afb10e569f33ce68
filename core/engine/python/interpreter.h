#pragma once
// The interpreter around this library. The interpreter has loaded the library (host.py), and answers calls.
//
// The library needs neither Python's headers nor Python's library at build time, so one build serves every Python.
// Control crosses by a plain function given by Python, tensors by operators that this library defines for Python.

#include <string>
#include <utility>

#include "core/engine/model/python/interpreter.h"

namespace estrain::python {

// Python's answer to a call: 0 if Python did the duty; else Python has told the reason (operator estrain::failed).
// Python takes the interpreter's lock for the call and releases the lock after it.
using Callback = int (*)(int duty, int64_t argument);

// Defines the operators used by Python. Call this once in a process.
void define_operators();

class HostInterpreter : public model::Interpreter {
 public:
  HostInterpreter(Callback call, size_t stream_bytes) : call_(call), stream_bytes_(stream_bytes) {}

  model::PythonModule build(uint64_t seed) override;
  void move_to(c10::Device gpu) override;
  void guard_calls(Guard guard) override { guard_ = std::move(guard); }
  void pass_by_name(const std::vector<std::string>& names) override;
  void pass_by_position() override;
  std::vector<torch::Tensor> forward(const std::vector<torch::Tensor>& inputs, bool trains) override;
  void backward(const torch::Tensor& loss) override;
  std::vector<std::string> first_backward(const torch::Tensor& loss) override;
  std::vector<std::string> calls_to_ranks() override;
  void keep(const std::vector<std::string>& constants) override;
  void run_eagerly(bool eagerly) override;
  void tell_modules(bool tells) override;
  std::vector<std::string> imported() override;
  size_t stream_bytes() const override { return stream_bytes_; }
  void seed_streams(uint64_t seed) override;
  void load_streams(const std::byte* state) override;
  void store_streams(std::byte* state) override;

 private:
  void ask(int duty, int64_t argument);
  void run_backward_of(const torch::Tensor& loss, bool is_first);

  Callback call_;
  size_t stream_bytes_;
  Guard guard_ = [](const std::function<void()>& call) { call(); };
};

}  // namespace estrain::python
