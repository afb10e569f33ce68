#include "tests/core/engine/operators/operator_cases.h"

namespace estrain::operators {
namespace {

Tensor mixed(int64_t n) { return (torch::arange(n).square() * 7 + torch::arange(n) * 3).remainder(1009); }

// Indices below `bound`, most of them several times.
Tensor indices(std::vector<int64_t> sizes, int64_t bound) {
  const int64_t n = c10::multiply_integers(sizes);
  return mixed(n).remainder(bound).view(sizes);
}
Tensor truths(std::vector<int64_t> sizes) {
  const int64_t n = c10::multiply_integers(sizes);
  return mixed(n).remainder(3).ne(1).view(sizes);
}

const auto kTanh = [](const std::vector<Tensor>& x) { return torch::gelu(x[0], "tanh"); };

}  // namespace

std::vector<Case> differentiable_cases() {
  using In = const std::vector<Tensor>&;
  return {
      {"mm", {{7, 300}, {300, 5}}, [](In x) { return x[0].mm(x[1]); }},
      {"mm, transposed", {{300, 7}, {5, 300}}, [](In x) { return x[0].t().mm(x[1].t()); }},
      {"linear", {{3, 4, 20}, {11, 20}, {11}}, [](In x) { return at::linear(x[0], x[1], x[2]); }},
      {"bmm", {{3, 7, 20}, {3, 20, 5}}, [](In x) { return x[0].bmm(x[1]); }},
      {"baddbmm", {{3, 7, 5}, {3, 7, 20}, {3, 20, 5}}, [](In x) { return at::baddbmm(x[0], x[1], x[2], 0.5, 2); }},
      {"mv", {{7, 20}, {20}}, [](In x) { return x[0].mv(x[1]); }},
      {"conv2d",
       {{2, 6, 9, 8}, {4, 3, 3, 3}, {4}},
       [](In x) {
         return at::conv2d(x[0], x[1], x[2], {2, 1}, {1, 2}, {1, 2}, 2);
       }},
      {"conv2d, depthwise",
       {{2, 6, 9, 8}, {6, 1, 3, 3}, {6}},
       [](In x) { return at::conv2d(x[0], x[1], x[2], 1, 1, 1, 6); }},
      {"conv3d",
       {{2, 4, 5, 6, 7}, {6, 2, 3, 2, 3}, {6}},
       [](In x) {
         return at::conv3d(x[0], x[1], x[2], {2, 1, 2}, {1, 0, 2}, {1, 2, 1}, 2);
       }},
      {"conv_transpose3d",
       {{2, 4, 3, 4, 5}, {4, 3, 2, 3, 3}, {6}},
       [](In x) {
         return at::conv_transpose3d(x[0], x[1], x[2], {2, 1, 2}, {1, 0, 1}, {1, 0, 0}, 2, {2, 1, 1});
       }},
      {"conv1d", {{2, 6, 20}, {4, 6, 3}, {4}}, [](In x) { return at::conv1d(x[0], x[1], x[2], 2, 1); }},
      {"batch_norm",
       {{4, 5, 6, 7}, {5}, {5}},
       [](In x) { return at::batch_norm(x[0], x[1], x[2], {}, {}, true, 0.1, 1e-5, false); }},
      {"layer_norm", {{4, 6, 33}, {33}, {33}}, [](In x) { return at::layer_norm(x[0], {33}, x[1], x[2]); }},
      {"softmax", {{4, 9, 3}}, [](In x) { return x[0].softmax(1); }},
      {"log_softmax", {{4, 99}}, [](In x) { return x[0].log_softmax(1); }},
      {"cross_entropy",
       {{4, 9}},
       [](In x) {
         return at::cross_entropy_loss(x[0], torch::tensor({1, 8, 0, 3}), {}, at::Reduction::Mean, -100, 0.1);
       }},
      {"mse_loss", {{4, 9}, {4, 9}}, [](In x) { return at::mse_loss(x[0], x[1]); }},
      {"max_pool2d", {{2, 3, 9, 8}}, [](In x) { return at::max_pool2d(x[0], 3, 2, 1); }},
      {"avg_pool2d", {{2, 3, 9, 8}}, [](In x) { return at::avg_pool2d(x[0], 3, 2, 1); }},
      {"adaptive_avg_pool2d",
       {{2, 3, 9, 8}},
       [](In x) {
         return at::adaptive_avg_pool2d(x[0], {4, 3});
       }},
      {"upsample_nearest2d",
       {{2, 3, 4, 5}},
       [](In x) {
         return at::upsample_nearest2d(x[0], {9, 8});
       }},
      {"upsample_bilinear2d",
       {{2, 3, 4, 5}},
       [](In x) {
         return at::upsample_bilinear2d(x[0], {9, 8}, false);
       }},
      {"attention",
       {{2, 3, 17, 8}, {2, 3, 17, 8}, {2, 3, 17, 8}},
       [](In x) { return at::scaled_dot_product_attention(x[0], x[1], x[2], {}, 0.0, true); }},
      {"attention, other keys",
       {{2, 3, 7, 8}, {2, 3, 17, 8}, {2, 3, 17, 8}},
       [](In x) { return at::scaled_dot_product_attention(x[0], x[1], x[2]); }},
      {"embedding",
       {{9, 4}},
       [](In x) {
         return at::embedding(x[0], torch::tensor({1, 8, 1, 3, 1}));
       }},
      {"sum",
       {{5, 6, 7}},
       [](In x) {
         return x[0].sum(at::OptionalIntArrayRef({0, 2}));
       }},
      {"mean", {{5, 6, 7}}, [](In x) { return x[0].mean({1}, true); }},
      {"var", {{5, 66}}, [](In x) { return x[0].var(at::OptionalIntArrayRef{1}, 1); }},
      {"norm", {{50, 66}}, [](In x) { return at::linalg_vector_norm(x[0], 2); }},
      {"gelu", {{777}}, [](In x) { return torch::gelu(x[0]); }},
      {"gelu, tanh", {{777}}, kTanh},
      {"silu", {{777}}, [](In x) { return torch::silu(x[0]); }},
      {"tanh", {{777}}, [](In x) { return x[0].tanh(); }},
      {"sigmoid", {{777}}, [](In x) { return x[0].sigmoid(); }},
      {"softplus", {{777}}, [](In x) { return at::softplus(x[0]); }},
      {"elu", {{777}}, [](In x) { return at::elu(x[0]); }},
      {"exp", {{777}}, [](In x) { return x[0].exp(); }},
      {"log", {{777}}, [](In x) { return x[0].log(); }, true},
      {"sqrt", {{777}}, [](In x) { return x[0].sqrt(); }, true},
      {"rsqrt", {{777}}, [](In x) { return x[0].rsqrt(); }, true},
      {"pow", {{777}}, [](In x) { return x[0].pow(3); }, true},
      {"sin", {{777}}, [](In x) { return x[0].sin(); }},
      {"add with a factor", {{7, 1}, {5}}, [](In x) { return x[0].add(x[1], 0.3); }},
      {"sub with a factor", {{7, 1}, {5}}, [](In x) { return x[0].sub(x[1], 0.3); }},
      {"addcmul", {{7, 5}, {5}, {7, 1}}, [](In x) { return x[0].addcmul(x[1], x[2], 0.3); }},
      {"addcdiv", {{7, 5}, {5}, {7, 1}}, [](In x) { return x[0].addcdiv(x[1], x[2], 0.3); }, true},
      {"lerp", {{7, 5}, {7, 5}}, [](In x) { return x[0].lerp(x[1], 0.3); }},
      {"conv_transpose2d",
       {{2, 6, 5, 4}, {6, 2, 3, 3}, {4}},
       [](In x) {
         return at::conv_transpose2d(x[0], x[1], x[2], {2, 1}, {1, 0}, {1, 0}, 2, {1, 2});
       }},
      {"conv_transpose2d, depthwise",
       {{2, 4, 5, 4}, {4, 1, 3, 3}},
       [](In x) { return at::conv_transpose2d(x[0], x[1], {}, 2, 1, 1, 4); }},
      {"conv_transpose1d",
       {{2, 4, 9}, {4, 3, 4}, {3}},
       [](In x) { return at::conv_transpose1d(x[0], x[1], x[2], 2, 1); }},
      {"_convolution",
       {{2, 6, 9, 8}, {4, 6, 3, 3}, {4}},
       [](In x) {
         return at::_convolution(x[0], x[1], x[2], {1, 1}, {1, 1}, {1, 1}, false, {0, 0}, 1, false, false, true, true);
       }},
      {"group_norm", {{3, 12, 5, 7}, {12}, {12}}, [](In x) { return at::group_norm(x[0], 4, x[1], x[2]); }},
      {"group_norm, plain", {{3, 6, 50}}, [](In x) { return at::group_norm(x[0], 2); }},
      {"instance_norm",
       {{2, 4, 5, 6}, {4}, {4}},
       [](In x) { return at::instance_norm(x[0], x[1], x[2], {}, {}, true, 0.1, 1e-5, false); }},
      {"weight_norm", {{6, 3, 4}, {6, 1, 1}}, [](In x) { return at::_weight_norm(x[0], x[1], 0); }},
      {"attention with a mask of truths",
       {{2, 3, 9, 8}, {2, 3, 17, 8}, {2, 3, 17, 8}},
       [](In x) {
         return at::scaled_dot_product_attention(x[0], x[1], x[2], truths({2, 1, 1, 17}));
       }},
      {"attention with a bias that is learned",
       {{2, 3, 9, 8}, {2, 3, 17, 8}, {2, 3, 17, 8}, {1, 3, 9, 17}},
       [](In x) { return at::scaled_dot_product_attention(x[0], x[1], x[2], x[3]); }},
      {"attention, heads that share keys",
       {{2, 6, 9, 8}, {2, 2, 9, 8}, {2, 2, 9, 8}},
       [](In x) { return at::scaled_dot_product_attention(x[0], x[1], x[2], {}, 0.0, true, {}, true); }},
      {"attention without a batch",
       {{3, 9, 8}, {3, 9, 8}, {3, 9, 8}},
       [](In x) { return at::scaled_dot_product_attention(x[0], x[1], x[2]); }},
      {"attention in five dimensions",
       {{2, 2, 3, 9, 8}, {2, 2, 3, 9, 8}, {2, 2, 3, 9, 8}},
       [](In x) {
         return at::scaled_dot_product_attention(x[0], x[1], x[2], truths({2, 1, 1, 1, 9}));
       }},
      {"upsample_nearest1d", {{2, 3, 5}}, [](In x) { return at::upsample_nearest1d(x[0], {13}); }},
      {"reflection_pad2d",
       {{2, 3, 4, 5}},
       [](In x) {
         return at::reflection_pad2d(x[0], {2, 1, 3, 0});
       }},
      {"replication_pad1d",
       {{3, 5}},
       [](In x) {
         return at::replication_pad1d(x[0], {2, 4});
       }},
      {"index",
       {{7, 5, 6}},
       [](In x) {
         return x[0].index({indices({4, 9}, 7)});
       }},
      {"index, two dimensions apart",
       {{7, 5, 6}},
       [](In x) {
         return x[0].index({indices({4, 9}, 7), torch::indexing::Slice(), indices({9}, 6) - 6});
       }},
      {"index, two dimensions in the middle",
       {{3, 7, 5, 2}},
       [](In x) {
         return x[0].index({torch::indexing::Slice(), indices({4, 9}, 7), indices({9}, 5)});
       }},
      {"index by a mask",
       {{7, 5, 6}},
       [](In x) {
         return x[0].index({truths({7, 5})});
       }},
      {"index_put that adds", {{7, 5}, {30, 5}}, [](In x) { return x[0].index_put({indices({30}, 7)}, x[1], true); }},
      {"index_put, values of one row",
       {{7, 5, 4}, {7, 1, 4}},
       [](In x) {
         return x[0].index_put({std::optional<Tensor>(), std::optional<Tensor>(indices({30}, 5))}, x[1], true);
       }},
      {"index_put by a mask", {{7, 5}, {5}}, [](In x) { return x[0].index_put({truths({7})}, x[1]); }},
      {"gather",
       {{7, 5}},
       [](In x) {
         return x[0].gather(0, indices({9, 5}, 7));
       }},
      {"index_select", {{7, 5}}, [](In x) { return x[0].index_select(1, indices({40}, 5)); }},
      {"index_add", {{7, 5}, {7, 40}}, [](In x) { return x[0].index_add(1, indices({40}, 5), x[1], 0.5); }},
      {"scatter_add",
       {{7, 5}, {9, 4}},
       [](In x) {
         return x[0].scatter_add(0, indices({9, 4}, 7), x[1]);
       }},
      {"scatter_add of slices",
       {{7, 5}, {9, 5}},
       [](In x) {
         return x[0].scatter_add(0, indices({9, 1}, 7).expand({9, 5}), x[1]);
       }},
      {"roll",
       {{7, 5}},
       [](In x) {
         return x[0].roll({2, -1}, {0, 1});
       }},
      {"embedding_bag, sums",
       {{9, 4}, {20}},
       [](In x) {
         return std::get<0>(
             at::embedding_bag(x[0], indices({20}, 9), torch::tensor({0, 3, 3, 11}), false, 0, false, x[1]));
       }},
      {"embedding_bag, means",
       {{9, 4}},
       [](In x) {
         return std::get<0>(
             at::embedding_bag(x[0], indices({20}, 9), torch::tensor({0, 3, 3, 11, 20}), false, 1, false, {}, true, 2));
       }},
      {"sort", {{7, 50}}, [](In x) { return std::get<0>(x[0].sort(1, true)); }},
      {"topk", {{7, 50}}, [](In x) { return std::get<0>(x[0].topk(5)); }},
      {"cumsum", {{7, 50}}, [](In x) { return x[0].cumsum(1); }},
      {"cumprod", {{7, 9}}, [](In x) { return x[0].cumprod(0); }, true},
      {"prod", {{4, 7, 3}}, [](In x) { return x[0].prod(1); }, true},
      {"prod of all", {{4, 5}}, [](In x) { return x[0].prod(); }, true},
      {"norm", {{5, 66}}, [](In x) { return x[0].norm(2, {1}); }},
      {"norm of order 3", {{5, 66}}, [](In x) { return x[0].norm(3, {1}); }},
      {"logsumexp", {{5, 66}}, [](In x) { return x[0].logsumexp(1); }},
      {"hardswish", {{777}}, [](In x) { return at::hardswish(x[0] * 3); }},
      {"hardsigmoid", {{777}}, [](In x) { return at::hardsigmoid(x[0] * 3); }},
      {"mish", {{777}}, [](In x) { return at::mish(x[0] * 3); }},
      {"log_sigmoid", {{777}}, [](In x) { return at::log_sigmoid(x[0] * 3); }},
      {"glu", {{7, 10}}, [](In x) { return at::glu(x[0], 1); }},
      {"prelu", {{4, 3, 9}, {3}}, [](In x) { return at::prelu(x[0], x[1]); }},
      {"scatter_reduce, amax",
       {{5, 7}, {9, 7}},
       [](In x) {
         return x[0].scatter_reduce(0, indices({9, 7}, 5), x[1], "amax");
       }},
      {"scatter_reduce, amin, without self",
       {{5, 7}, {9, 7}},
       [](In x) {
         return x[0].scatter_reduce(0, indices({9, 7}, 4), x[1], "amin", false);
       }},
      {"scatter_reduce, mean",
       {{5, 7}, {9, 7}},
       [](In x) {
         return x[0].scatter_reduce(0, indices({9, 7}, 4), x[1], "mean");
       }},
      {"scatter_reduce, mean without self",
       {{5, 7}, {9, 7}},
       [](In x) {
         return x[0].scatter_reduce(0, indices({9, 7}, 4), x[1], "mean", false);
       }},
      {"scatter_reduce, sum",
       {{7, 5}, {7, 9}},
       [](In x) {
         return x[0].scatter_reduce(1, indices({7, 9}, 5), x[1], "sum");
       }},
      {"cdist, few rows", {{2, 5, 4}, {3, 4}}, [](In x) { return at::cdist(x[0], x[1], 2.0); }},
      {"cdist, p 1", {{2, 5, 4}, {3, 4}}, [](In x) { return at::cdist(x[0], x[1], 1.0); }},
      {"cdist, p 3.5", {{2, 5, 4}, {3, 4}}, [](In x) { return at::cdist(x[0], x[1], 3.5); }},
      {"cdist, p infinity", {{2, 5, 4}, {3, 4}}, [](In x) { return at::cdist(x[0], x[1], INFINITY); }},
      {"cdist, many rows", {{2, 30, 4}, {2, 5, 4}}, [](In x) { return at::cdist(x[0], x[1], 2.0); }},
      {"ctc_loss",  // the last sample has repeated labels, and one of no time to spare
       {{9, 4, 6}},
       [](In x) {
         const Tensor targets = torch::tensor({{1, 2, 3}, {4, 0, 0}, {0, 0, 0}, {5, 5, 2}});
         return at::ctc_loss(x[0].log_softmax(2), targets, {9, 5, 7, 4}, {3, 1, 0, 3}, 0, at::Reduction::None);
       }},
      {"ctc_loss of joined targets, infinite losses as 0",
       {{6, 3, 5}},
       [](In x) {
         const Tensor targets = torch::tensor({0, 1, 1, 2, 3, 0, 1, 2, 3, 0});
         return at::ctc_loss(x[0].log_softmax(2), targets, {6, 3, 6}, {3, 4, 3}, 4, at::Reduction::None, true);
       }},
      {"log2", {{777}}, [](In x) { return x[0].log2(); }, true},
      {"tan", {{777}}, [](In x) { return x[0].tan(); }},
      {"asin", {{777}}, [](In x) { return x[0].tanh().asin(); }},
      {"acos", {{777}}, [](In x) { return x[0].tanh().acos(); }},
      {"atan", {{777}}, [](In x) { return (x[0] * 3).atan(); }},
      {"sinh", {{777}}, [](In x) { return x[0].sinh(); }},
      {"cosh", {{777}}, [](In x) { return x[0].cosh(); }},
      {"asinh", {{777}}, [](In x) { return (x[0] * 3).asinh(); }},
      {"acosh", {{777}}, [](In x) { return (x[0].square() + 1.5).acosh(); }},
      {"atanh", {{777}}, [](In x) { return (x[0].tanh() * 0.9).atanh(); }},
      {"atan2", {{20, 7}, {7}}, [](In x) { return x[0].atan2(x[1]); }},
      {"pow of two tensors", {{777}, {777}}, [](In x) { return x[0].pow(x[1]); }, true},
      {"pow of a number", {{777}}, [](In x) { return torch::pow(1.7, x[0]); }},
      {"xlogy", {{777}, {777}}, [](In x) { return at::xlogy(x[0], x[1]); }, true},
      {"logaddexp", {{777}, {777}}, [](In x) { return at::logaddexp(x[0], x[1]); }},
      {"kl_div", {{7, 9}, {7, 9}}, [](In x) { return at::kl_div(x[0].log_softmax(1), x[1].softmax(1)); }},
      {"smooth_l1_loss", {{4, 9}, {4, 9}}, [](In x) { return at::smooth_l1_loss(x[0], x[1], 1, 0.7); }},
      {"huber_loss", {{4, 9}, {4, 9}}, [](In x) { return at::huber_loss(x[0], x[1], 2, 0.7); }},
      {"l1_loss", {{4, 9}, {4, 9}}, [](In x) { return at::l1_loss(x[0], x[1]); }},
      {"binary_cross_entropy",
       {{4, 9}},
       [](In x) {
         const Tensor weight = torch::arange(1, 10, x[0].dtype());
         return at::binary_cross_entropy(x[0].sigmoid(), truths({4, 9}).to(x[0].dtype()), weight);
       }},
      {"binary_cross_entropy_with_logits",
       {{4, 9}, {4, 9}},
       [](In x) {
         return at::binary_cross_entropy_with_logits(x[0], x[1].sigmoid(), {}, torch::full({9}, 2.0, x[0].dtype()));
       }},
      {"lstm, called twice",  // the second time from where the first ended, with the same weights
       {{5, 2, 3}, {16, 3}, {16, 4}, {16}, {16}},
       [](In x) {
         const Tensor zeros = torch::zeros({1, 2, 4}, x[0].options());
         const auto call = [&x](const Tensor& input, const Tensor& h, const Tensor& c) {
           return at::lstm(input, {h, c}, {x[1], x[2], x[3], x[4]}, true, 1, 0.0, true, false, false);
         };
         const auto [first, h, c] = call(x[0], zeros, zeros);
         const auto [second, h2, c2] = call(x[0].flip(0), h, c);
         return torch::cat({first, second, h2, c2});
       }},
      {"lstm",
       {{5, 3, 6}, {16, 6}, {16, 4}, {16}, {16}},
       [](In x) {
         const Tensor start = torch::zeros({1, 3, 4}, x[0].dtype());
         return std::get<0>(at::lstm(x[0], {start, start}, {x[1], x[2], x[3], x[4]}, true, 1, 0.0, true, false, false));
       }},
      {"gru",
       {{5, 3, 6}, {12, 6}, {12, 4}, {12}, {12}},
       [](In x) {
         const Tensor start = torch::zeros({1, 3, 4}, x[0].dtype());
         return std::get<0>(at::gru(x[0], start, {x[1], x[2], x[3], x[4]}, true, 1, 0.0, true, false, false));
       }},
  };
}

}  // namespace estrain::operators
