// Distances of all pairs of rows (torch.cdist), from the other portable operators: differences, powers, sums.

#include <ATen/ExpandUtils.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/add.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/clamp_min.h>
#include <ATen/ops/div.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/sign.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "core/engine/operators/float_tensor.h"
#include "core/engine/operators/registry.h"

namespace estrain::operators {
namespace {

using at::Tensor;

constexpr int64_t kMostDifferences = 1 << 22;  // held at a time

// Two lists of rows, [..., rows, width], with equal sizes in front.
struct Rows {
  Tensor a, b;

  Rows(const char* name, const Tensor& first, const Tensor& second) : a(floats(name, first)), b(floats(name, second)) {
    std::vector<int64_t> front =
        at::infer_size(first.sizes().slice(0, first.dim() - 2), second.sizes().slice(0, second.dim() - 2));
    a = expanded(a, front);
    b = expanded(b, front);
  }
  static Tensor expanded(const Tensor& x, std::vector<int64_t> front) {
    front.push_back(x.size(-2));
    front.push_back(x.size(-1));
    return x.expand(front);
  }

  // Joins the results of `work` for a few rows of `a` at a time. `work` gets the rows' differences from all rows of
  // `b`, [..., rows of a, rows of b, width]. A result has the rows of `a` as dimension `dim`.
  Tensor by_differences(
      int64_t dim, const std::function<Tensor(const Tensor& differences, int64_t first, int64_t count)>& work) const {
    const int64_t step = std::max<int64_t>(kMostDifferences / std::max<int64_t>(b.numel(), 1), 1);
    std::vector<Tensor> parts;
    for (int64_t first = 0; first < a.size(-2); first += step) {
      const int64_t count = std::min(step, a.size(-2) - first);
      parts.push_back(work(at::sub(a.narrow(-2, first, count).unsqueeze(-2), b.unsqueeze(-3)), first, count));
    }
    return at::cat(parts, dim);
  }
};

Tensor norms(const Tensor& differences, double p) {
  if (p == 0) return at::sum(at::ne(differences, 0).to(at::kFloat), -1);
  if (p == 1) return at::sum(at::abs(differences), -1);
  if (p == 2) return at::sqrt(at::sum(at::mul(differences, differences), -1));
  if (std::isinf(p)) return at::amax(at::abs(differences), -1);
  return at::pow(at::sum(at::pow(at::abs(differences), p), -1), 1 / p);
}

// |a|^2 - 2 a b + |b|^2 as one product; torch.cdist's own way for many rows.
Tensor euclidean_by_product(const Rows& rows) {
  const auto squares = [](const Tensor& x) { return at::sum(at::mul(x, x), at::IntArrayRef{-1}, /*keepdim=*/true); };
  const Tensor product = at::matmul(rows.a, rows.b.transpose(-2, -1));
  const Tensor sum = at::add(at::add(squares(rows.a), squares(rows.b).transpose(-2, -1)), at::mul(product, -2));
  return at::sqrt(at::clamp_min(sum, 0));
}

Tensor cdist(const Tensor& first, const Tensor& second, double p, std::optional<int64_t> mode) {
  TORCH_CHECK(first.dim() >= 2 && second.dim() >= 2 && first.size(-1) == second.size(-1) && p >= 0, "cdist: rows of ",
              first.sizes(), " and ", second.sizes(), ", p ", p);
  const Rows rows("cdist", first, second);
  const int64_t most = std::max(rows.a.size(-2), rows.b.size(-2)), way = mode.value_or(0);
  std::vector<int64_t> sizes = rows.a.sizes().vec();
  sizes.back() = rows.b.size(-2);
  if (c10::multiply_integers(sizes) == 0 || rows.a.size(-1) == 0) return at::zeros(sizes, rows.a.options());
  if (p == 2 && (way == 1 || (way == 0 && most > 25))) return euclidean_by_product(rows);
  return rows.by_differences(-2, [&](const Tensor& differences, int64_t, int64_t) { return norms(differences, p); });
}

// Returns the slope of the distance by each difference; 0 where the distance is 0.
Tensor slopes(const Tensor& differences, const Tensor& distances, double p) {
  if (p == 1) return at::sign(differences);
  if (std::isinf(p)) return at::mul(at::sign(differences), at::eq(at::abs(differences), distances).to(at::kFloat));
  const Tensor powers = p == 2 ? differences : at::mul(at::sign(differences), at::pow(at::abs(differences), p - 1));
  const Tensor slope = at::div(powers, p == 2 ? distances : at::pow(distances, p - 1));
  return at::where(at::eq(distances, 0), at::zeros({}, slope.options()), slope);
}

// Returns the gradient of the first rows.
Tensor cdist_backward(const Tensor& gradient, const Tensor& first, const Tensor& second, double p,
                      const Tensor& distances) {
  const Rows rows("_cdist_backward", first, second);
  const Tensor g = floats("_cdist_backward", gradient).expand(distances.sizes());
  if (rows.a.numel() == 0 || rows.b.numel() == 0 || p == 0) return at::zeros(rows.a.sizes(), rows.a.options());
  return rows.by_differences(-2, [&](const Tensor& differences, int64_t from, int64_t count) {
    const auto column = [&](const Tensor& x) { return x.narrow(-2, from, count).unsqueeze(-1); };
    return at::sum(at::mul(slopes(differences, column(distances), p), column(g)), -2);
  });
}

}  // namespace

void register_distances(OperatorRegistry& registry) {
  registry.replace("_cdist_forward", cdist);
  registry.replace("_cdist_backward", cdist_backward);
}

}  // namespace estrain::operators
