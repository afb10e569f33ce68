#include "core/engine/train/shared/gradient_factors.h"

#include <ATen/ops/embedding_dense_backward.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/generated/Functions.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <unordered_set>
#include <utility>

#include "core/base/error.h"
#include "core/engine/operators/layers/linear.h"

namespace estrain::train {
namespace {

using comm::FactorForm;
using comm::FactorHead;
using torch::autograd::Node;
namespace generated = torch::autograd::generated;

// One output of a node.
struct Output {
  Node* node = nullptr;
  size_t number = 0;
};

// What leads to a node: nothing, one output, or more.
struct Source {
  Output first;
  size_t outputs = 0;
};

using Sources = std::unordered_map<const Node*, Source>;

Sources sources_of_nodes(const torch::Tensor& loss) {
  Sources sources;
  if (!loss.grad_fn()) return sources;
  std::vector<Node*> open = {loss.grad_fn().get()};
  std::unordered_set<const Node*> seen(open.begin(), open.end());
  while (!open.empty()) {
    Node* const node = open.back();
    open.pop_back();
    for (size_t i = 0; i < node->num_outputs(); ++i) {
      Node* const next = node->next_edge(i).function.get();
      if (next == nullptr) continue;
      Source& source = sources[next];
      if (source.outputs++ == 0) source.first = {node, i};
      if (seen.insert(next).second) open.push_back(next);
    }
  }
  return sources;
}

// Null: no output, or several.
Output only_source(const Sources& sources, const Node* node) {
  const auto at = sources.find(node);
  return at == sources.end() || at->second.outputs != 1 ? Output{} : at->second.first;
}

// Returns the factors that are known before the backward pass: all but `left`.
GradientFactors factors_at(const Output& output, bool transposed) {
  GradientFactors factors;
  const FactorForm of_product = transposed ? FactorForm::transposed_weight : FactorForm::weight;
  if (auto* const mm = dynamic_cast<generated::MmBackward0*>(output.node); mm && output.number == 1) {
    factors.form = of_product;
    factors.right = mm->self_.unpack();
  } else if (auto* const addmm = dynamic_cast<generated::AddmmBackward0*>(output.node); addmm && output.number == 2) {
    if (addmm->alpha.toDouble() != 1) return {};
    factors.form = of_product;
    factors.right = addmm->mat1_.unpack();
  } else if (auto* const table = dynamic_cast<generated::EmbeddingBackward0*>(output.node); table && !transposed) {
    if (table->sparse) return {};
    factors.form = FactorForm::embedding;
    factors.right = table->indices_.unpack().reshape({-1}).to(torch::kLong).contiguous();
    factors.padding = table->padding_idx.guard_int(__FILE__, __LINE__);
    factors.scales_by_frequency = table->scale_grad_by_freq;
  } else if (const torch::Tensor x = operators::input_of_linear(*output.node); x.defined() && output.number == 1) {
    if (transposed) return {};
    factors.form = FactorForm::linear;
    factors.right = x.view({-1, x.size(-1)});
  }
  return factors;
}

GradientFactors find(const Sources& sources, const Node* accumulates) {
  const Output last = only_source(sources, accumulates);
  if (last.node == nullptr) return {};
  if (dynamic_cast<generated::TBackward0*>(last.node) == nullptr) return factors_at(last, /*transposed=*/false);
  const Output before = only_source(sources, last.node);
  return before.node == nullptr ? GradientFactors{} : factors_at(before, /*transposed=*/true);
}

class SeeGradient : public torch::autograd::FunctionPreHook {
 public:
  explicit SeeGradient(std::function<void(const torch::Tensor&)> see) : see_(std::move(see)) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& gradients) override {
    if (gradients[0].defined()) see_(gradients[0]);
    return gradients;
  }

 private:
  std::function<void(const torch::Tensor&)> see_;
};

// A single row may have any strides, and gaps. Each element of its product is one multiplication, so a copy without
// gaps has the same product.
void make_plain(GradientFactors& factors) {
  factors.left = factors.left.reshape({-1}).contiguous().view({1, -1});
  if (factors.form != FactorForm::embedding) factors.right = factors.right.reshape({-1}).contiguous().view({1, -1});
}

// The gradient of an output of any sizes, as rows.
torch::Tensor rows_of(const torch::Tensor& gradient, FactorForm form) {
  const bool as_is = form == FactorForm::transposed_weight || form == FactorForm::weight;
  return as_is ? gradient : gradient.contiguous().view({-1, gradient.size(-1)});
}

// The sizes of `left`, of factors with this many rows.
std::array<int64_t, 2> left_sizes(FactorForm form, int64_t rows, at::IntArrayRef sizes) {
  const bool ends_in_second = form == FactorForm::weight || form == FactorForm::embedding;
  return {rows, sizes[ends_in_second ? 1 : 0]};
}

std::array<int64_t, 2> right_sizes(FactorForm form, int64_t rows, at::IntArrayRef sizes) {
  return {rows, form == FactorForm::embedding ? 1 : sizes[form == FactorForm::weight ? 0 : 1]};
}

std::array<int64_t, 2> strides_of(const torch::Tensor& tensor) {
  return {tensor.stride(0), tensor.dim() > 1 ? tensor.stride(1) : 1};
}

// Every element has a place of its own in memory without gaps, in the order of rows or of columns.
bool is_dense(std::array<int64_t, 2> sizes, std::array<int64_t, 2> strides) {
  const bool by_rows = strides[1] == 1 && strides[0] == sizes[1],
             by_columns = strides[0] == 1 && strides[1] == sizes[0];
  return by_rows || by_columns;
}

}  // namespace

size_t bytes_of_factors(FactorForm form, int64_t rows, at::IntArrayRef sizes) {
  const auto bytes = [rows](int64_t width, size_t each) {
    return comm::factor_bytes(static_cast<size_t>(rows * width) * each);
  };
  if (form == FactorForm::embedding)
    return sizeof(FactorHead) + bytes(sizes[1], sizeof(float)) + bytes(1, sizeof(int64_t));
  return sizeof(FactorHead) + bytes(sizes[0], sizeof(float)) + bytes(sizes[1], sizeof(float));
}

bool are_storable(const GradientFactors& factors, at::IntArrayRef sizes) {
  const auto left = left_sizes(factors.form, factors.rows(), sizes);
  const auto right = right_sizes(factors.form, factors.rows(), sizes);
  const bool is_table = factors.form == FactorForm::embedding;
  return factors.left.dim() == 2 && factors.left.sizes() == at::IntArrayRef(left) &&
         factors.right.numel() == right[0] * right[1] && factors.left.scalar_type() == torch::kFloat &&
         factors.right.scalar_type() == (is_table ? torch::kLong : torch::kFloat) &&
         is_dense(left, strides_of(factors.left)) && is_dense(right, strides_of(factors.right));
}

void put_factors(const comm::FactorPlaces& places, VirtualRank rank, const GradientFactors& factors) {
  std::byte* at = places.at(rank);
  FactorHead head;
  head.form = factors.form;
  head.rows = factors.rows();
  head.left_strides = strides_of(factors.left);
  head.right_strides = strides_of(factors.right);
  head.padding = factors.padding;
  head.scales_by_frequency = factors.scales_by_frequency ? 1 : 0;
  std::memcpy(at, &head, sizeof head);
  at += sizeof head;
  std::memcpy(at, factors.left.const_data_ptr(), factors.left.nbytes());
  at += comm::factor_bytes(factors.left.nbytes());
  std::memcpy(at, factors.right.const_data_ptr(), factors.right.nbytes());
}

GradientFactors factors_in(const comm::FactorPlaces& places, VirtualRank rank, at::IntArrayRef sizes) {
  const FactorHead head = places.head(rank);
  const auto require = [rank](bool is_sound) {
    if (!is_sound) throw Error::make(Fault::corrupt, "the factors of a gradient of virtual rank {} are damaged", rank);
  };
  require(head.form >= FactorForm::linear && head.form <= FactorForm::embedding);
  require(head.rows >= 1 && head.rows <= static_cast<int64_t>(places.capacity() / sizeof(float)));
  require(bytes_of_factors(head.form, head.rows, sizes) <= places.capacity());
  const auto left = left_sizes(head.form, head.rows, sizes), right = right_sizes(head.form, head.rows, sizes);
  require(is_dense(left, head.left_strides) && is_dense(right, head.right_strides));
  std::byte* const at = places.at(rank) + sizeof head;
  GradientFactors factors;
  factors.form = head.form;
  factors.left = at::from_blob(at, left, head.left_strides, torch::kFloat);
  std::byte* const behind = at + comm::factor_bytes(factors.left.nbytes());
  if (head.form != FactorForm::embedding) {
    factors.right = at::from_blob(behind, right, head.right_strides, torch::kFloat);
    return factors;
  }
  factors.right = at::from_blob(behind, {head.rows}, torch::kLong);
  const int64_t* const rows = factors.right.const_data_ptr<int64_t>();
  require(std::all_of(rows, rows + head.rows, [&](int64_t row) { return row >= 0 && row < sizes[0]; }));
  factors.padding = head.padding;
  factors.scales_by_frequency = head.scales_by_frequency != 0;
  return factors;
}

torch::Tensor gradient_of(const GradientFactors& factors, at::IntArrayRef sizes) {
  const torch::NoGradGuard no_graph;
  switch (factors.form) {
    case FactorForm::linear:
      return operators::weight_gradient_of_linear(factors.left, factors.right);
    case FactorForm::transposed_weight:
      return at::mm(factors.left.t(), factors.right);
    case FactorForm::weight:
      return at::mm(factors.right.t(), factors.left);
    case FactorForm::embedding:
      return at::embedding_dense_backward(factors.left, factors.right, sizes[0], factors.padding,
                                          factors.scales_by_frequency);
    case FactorForm::none:
      break;
  }
  return {};
}

FactorWatch::FactorWatch(const std::vector<torch::Tensor>& parameters) {
  for (const torch::Tensor& parameter : parameters) {
    kept_.push_back(torch::autograd::impl::grad_accumulator(parameter));
    places_.emplace(kept_.back().get(), kept_.size() - 1);
  }
}

std::vector<FactorWatch::Use> FactorWatch::uses(const torch::Tensor& loss) const {
  const Sources sources = sources_of_nodes(loss);
  std::vector<Use> found;
  for (const auto& [accumulates, place] : places_) {
    GradientFactors factors = find(sources, accumulates);
    if (factors.form == FactorForm::none) continue;
    const Output last = only_source(sources, accumulates);
    const Output product = factors.form == FactorForm::transposed_weight ? only_source(sources, last.node) : last;
    found.push_back({place, product.node, product.number, std::move(factors)});
  }
  return found;
}

void FactorWatch::see(Use use, See see) {
  use.node->add_pre_hook(
      std::make_unique<SeeGradient>([see = std::move(see), place = use.parameter,
                                     factors = std::move(use.factors)](const torch::Tensor& gradient) mutable {
        factors.left = rows_of(gradient, factors.form);
        if (factors.rows() == 1) make_plain(factors);
        see(place, factors);
        factors = {};  // the graph lives on, and would keep the tensors
      }));
}

FactorWatch::Cuts::~Cuts() {
  for (const Cut& cut : cuts_) *cut.edge = cut.before;
}

// The node computes no gradient for an edge that leads nowhere.
void FactorWatch::Cuts::cut(const Use& use) {
  torch::autograd::Edge& edge = use.node->next_edges()[use.output];
  cuts_.push_back({&edge, std::exchange(edge, {})});
}

size_t FactorWatch::watch(const torch::Tensor& loss, const See& see) const {
  std::vector<Use> found = uses(loss);
  for (Use& use : found) FactorWatch::see(std::move(use), see);
  return found.size();
}

}  // namespace estrain::train
