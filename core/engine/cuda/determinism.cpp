#include "core/engine/cuda/determinism.h"

#include <ATen/Context.h>
#include <ATen/ops/gru_native.h>
#include <ATen/ops/lstm_native.h>
#include <ATen/ops/rnn_relu_native.h>
#include <ATen/ops/rnn_tanh_native.h>
#include <torch/library.h>

#include <tuple>

namespace estrain::cuda {
namespace {

using at::Tensor;
using at::TensorList;

class WithoutCudnn {
 public:
  WithoutCudnn() : before_(at::globalContext().userEnabledCuDNN()) { at::globalContext().setUserEnabledCuDNN(false); }
  ~WithoutCudnn() { at::globalContext().setUserEnabledCuDNN(before_); }
  WithoutCudnn(const WithoutCudnn&) = delete;
  WithoutCudnn& operator=(const WithoutCudnn&) = delete;

 private:
  const bool before_;
};

// LibTorch's composition of a recurrent layer.
template <typename Result, typename... Arguments>
struct Composed {
  Result (*function)(Arguments...);
  Result operator()(Arguments... arguments) const {
    const WithoutCudnn without;
    return function(arguments...);
  }
};

template <typename Result, typename... Arguments>
void compose(torch::Library& library, const char* name, Result (*function)(Arguments...)) {
  library.impl(name, torch::CppFunction(Composed<Result, Arguments...>{function}));
}

using Two = std::tuple<Tensor, Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;
using Layer = Two (*)(const Tensor&, const Tensor&, TensorList, bool, int64_t, double, bool, bool, bool);
using PackedLayer = Two (*)(const Tensor&, const Tensor&, const Tensor&, TensorList, bool, int64_t, double, bool, bool);
using Lstm = Three (*)(const Tensor&, TensorList, TensorList, bool, int64_t, double, bool, bool, bool);
using PackedLstm = Three (*)(const Tensor&, const Tensor&, TensorList, TensorList, bool, int64_t, double, bool, bool);

// cuDNN keeps the state of the dropout between layers in the process: it would not move with an EST. The library also
// chooses among algorithms that sum in different orders.
void compose_recurrent_layers(torch::Library& library) {
  compose(library, "lstm.input", static_cast<Lstm>(at::native::lstm));
  compose(library, "lstm.data", static_cast<PackedLstm>(at::native::lstm));
  compose(library, "gru.input", static_cast<Layer>(at::native::gru));
  compose(library, "gru.data", static_cast<PackedLayer>(at::native::gru));
  compose(library, "rnn_tanh.input", static_cast<Layer>(at::native::rnn_tanh));
  compose(library, "rnn_tanh.data", static_cast<PackedLayer>(at::native::rnn_tanh));
  compose(library, "rnn_relu.input", static_cast<Layer>(at::native::rnn_relu));
  compose(library, "rnn_relu.data", static_cast<PackedLayer>(at::native::rnn_relu));
}

}  // namespace

void compute_deterministically(Tf32 tf32) {
  at::Context& context = at::globalContext();
  context.setDeterministicAlgorithms(true, /*warn_only=*/false);
  context.setDeterministicFillUninitializedMemory(
      false);  // costs a pass over all memory; nothing reads uninitialised memory
  context.setDeterministicCuDNN(true);
  context.setBenchmarkCuDNN(false);  // benchmark mode chooses an algorithm by time
  // Not setFloat32Precision: these setters keep both flags of LibTorch in step. LibTorch's CUDA code reads both.
  context.setAllowTF32CuBLAS(tf32 == Tf32::allowed);
  context.setAllowTF32CuDNN(tf32 == Tf32::allowed);
  static torch::Library recurrent(torch::Library::IMPL, "aten", c10::DispatchKey::AutogradCUDA, __FILE__, __LINE__);
  static const bool composed = (compose_recurrent_layers(recurrent), true);
  static_cast<void>(composed);
}

}  // namespace estrain::cuda
