#pragma once
// The factors of a gradient (core/state/comm/gradient_factors.h): found in autograd's graph, seen during the backward
// pass, and multiplied by the operator that the backward pass uses.
//
// A parameter's gradient has factors if one node of the graph alone computes the gradient: the node of
//   - LibTorch's mm or addmm, with the parameter as second matrix, transposed (as in a linear layer) or not;
//   - the portable linear layer (engine/operators/layers/linear.h);
//   - LibTorch's embedding, dense and without a bag.
// A parameter that is used twice, or reached through another operator (as under autocast), has none.

#include <torch/csrc/autograd/edge.h>
#include <torch/types.h>

#include <cstddef>
#include <functional>
#include <unordered_map>
#include <vector>

#include "core/state/comm/gradient_factors.h"

namespace estrain::train {

struct GradientFactors {
  comm::FactorForm form = comm::FactorForm::none;
  // Of a product: the gradients of the outputs, [rows, outputs], and the inputs, [rows, inputs]; of an embedding: the
  // gradients of the outputs, [rows, width], and the rows of the table, int64 [rows]. In memory without gaps.
  torch::Tensor left, right;
  int64_t padding = -1;
  bool scales_by_frequency = false;

  int64_t rows() const { return left.size(0); }
};

// Returns the gradient of a parameter of these sizes, contiguous, as the backward pass computes it.
torch::Tensor gradient_of(const GradientFactors& factors, at::IntArrayRef sizes);

// Returns the bytes of the factors of a parameter of these sizes, with their head.
size_t bytes_of_factors(comm::FactorForm form, int64_t rows, at::IntArrayRef sizes);

// Returns whether put_factors() can take the factors: of float32 and of sizes that fit the parameter's, without gaps.
bool are_storable(const GradientFactors& factors, at::IntArrayRef sizes);

// Writes storable factors to the place of an EST, which must be large enough.
void put_factors(const comm::FactorPlaces& places, VirtualRank rank, const GradientFactors& factors);

// Returns the factors in the place of an EST, without a copy. They may have come by the network: throws Fault::corrupt
// if they are not factors of a parameter of these sizes.
GradientFactors factors_in(const comm::FactorPlaces& places, VirtualRank rank, at::IntArrayRef sizes);

class FactorWatch {
 public:
  // Watches these parameters. The pass tells a parameter by its place in the list.
  explicit FactorWatch(const std::vector<torch::Tensor>& parameters);

  // The node that alone computes a parameter's gradient, as its output number `output`. `factors`: all but `left`.
  struct Use {
    size_t parameter = 0;
    torch::autograd::Node* node = nullptr;
    size_t output = 0;
    GradientFactors factors;
  };
  // Returns the uses of all parameters whose gradient has factors. `loss` keeps the nodes.
  std::vector<Use> uses(const torch::Tensor& loss) const;

  // Before the backward pass of `loss`: has the pass call `see` before each computation of a gradient with factors.
  // Returns the number of parameters whose gradient has factors. `see` is called in the thread of the pass.
  using See = std::function<void(size_t parameter, const GradientFactors& factors)>;
  size_t watch(const torch::Tensor& loss, const See& see) const;
  static void see(Use use, See see);

  // Gradients that a pass does not compute. The graph is as it was before once the object is gone.
  class Cuts {
   public:
    Cuts() = default;
    Cuts(Cuts&&) = default;
    Cuts& operator=(Cuts&&) = delete;
    ~Cuts();

    void cut(const Use& use);

   private:
    struct Cut {
      torch::autograd::Edge* edge;
      torch::autograd::Edge before;
    };
    std::vector<Cut> cuts_;
  };

 private:
  std::unordered_map<const torch::autograd::Node*, size_t> places_;  // by the node that accumulates the gradient
  std::vector<std::shared_ptr<torch::autograd::Node>> kept_;         // the nodes above
};

}  // namespace estrain::train
