#include "tests/core/engine/operators/nondeterministic_cases.h"

#include <array>
#include <optional>
#include <tuple>

namespace estrain::operators {
namespace {

using at::IntArrayRef;
using at::Tensor;
using Tensors = std::vector<Tensor>;
using Cases = std::vector<NondeterministicCase>;

// The operands of the cases, in the order of calls.
Tensor floats(IntArrayRef sizes) { return at::randn(sizes); }
Tensor flipped(IntArrayRef sizes) {  // not contiguous
  std::vector<int64_t> turned = sizes.vec();
  std::swap(turned[turned.size() - 1], turned[turned.size() - 2]);
  return at::randn(turned).transpose(-1, -2);
}
Tensor classes(int64_t below, IntArrayRef sizes) { return at::randint(below, sizes, at::kLong); }
Tensor all(std::vector<int64_t> numbers) { return at::tensor(numbers, at::kLong); }

void add_upsampling(Cases& cases) {
  for (const bool corners : {false, true}) {
    const std::string words = corners ? " with aligned corners" : "";
    for (const auto& pair : {std::pair<int64_t, int64_t>{5, 9}, {9, 5}, {7, 7}, {1, 4}}) {
      const int64_t in = pair.first, out = pair.second;
      const auto sizes = words + " from " + std::to_string(in) + " to " + std::to_string(out);
      cases.push_back({"upsample_linear1d_backward" + sizes, [=](const To& to) -> Tensors {
                         return {at::upsample_linear1d_backward(to(floats({2, 3, out})), {out}, {2, 3, in}, corners)};
                       }});
      cases.push_back(
          {"upsample_bilinear2d_backward" + sizes, [=](const To& to) -> Tensors {
             return {at::upsample_bilinear2d_backward(to(flipped({2, 3, out, 6})), {out, 6}, {2, 3, in, 4}, corners)};
           }});
      cases.push_back(
          {"upsample_bicubic2d_backward" + sizes, [=](const To& to) -> Tensors {
             return {at::upsample_bicubic2d_backward(to(floats({2, 3, 6, out})), {6, out}, {2, 3, 4, in}, corners)};
           }});
      cases.push_back({"upsample_trilinear3d_backward" + sizes, [=](const To& to) -> Tensors {
                         return {at::upsample_trilinear3d_backward(to(floats({2, 3, 4, out, 6})), {4, out, 6},
                                                                   {2, 3, 5, in, 6}, corners)};
                       }});
      cases.push_back({"_upsample_bilinear2d_aa_backward" + sizes, [=](const To& to) -> Tensors {
                         return {at::_upsample_bilinear2d_aa_backward(to(floats({2, 3, out, 3})), {out, 3},
                                                                      {2, 3, in, 8}, corners)};
                       }});
      cases.push_back(
          {"_upsample_bicubic2d_aa_backward" + sizes, [=](const To& to) -> Tensors {
             return {at::_upsample_bicubic2d_aa_backward(to(floats({2, 3, out, 3})), {out, 3}, {2, 3, in, 8}, corners)};
           }});
    }
  }
  cases.push_back(
      {"upsample_bilinear2d_backward with scales", [](const To& to) -> Tensors {
         return {at::upsample_bilinear2d_backward(to(floats({1, 2, 9, 8})), {9, 8}, {1, 2, 4, 4}, false, 2.3, 2.1)};
       }});
  cases.push_back(
      {"upsample_bilinear2d_backward with other scales", [](const To& to) -> Tensors {
         return {at::upsample_bilinear2d_backward(to(floats({1, 2, 9, 8})), {9, 8}, {1, 2, 4, 4}, false, 2.4, 2.1)};
       }});
  cases.push_back(
      {"upsample_bicubic2d_backward with scales to equal sizes", [](const To& to) -> Tensors {
         return {at::upsample_bicubic2d_backward(to(floats({2, 3, 5, 6})), {5, 6}, {2, 3, 5, 6}, false, 1.1, 1.1)};
       }});
}

// Of sides that stay equal, LibTorch's CPU and GPU kernels take the scales with antialiasing. Without it, both copy if
// all sides stay equal.
void add_equal_sides(Cases& cases) {
  for (const int64_t out : {8, 4}) {
    const std::string words = out == 4 ? " with scales, all sides equal" : " with scales, one side equal";
    const double scale = out == 4 ? 1.2 : 2;
    cases.push_back({"_upsample_bilinear2d_aa_backward" + words, [=](const To& to) -> Tensors {
                       return {at::_upsample_bilinear2d_aa_backward(to(floats({2, 3, out, 6})), {out, 6}, {2, 3, 4, 6},
                                                                    false, scale, 1.3)};
                     }});
    cases.push_back({"_upsample_bicubic2d_aa_backward" + words, [=](const To& to) -> Tensors {
                       return {at::_upsample_bicubic2d_aa_backward(to(floats({2, 3, out, 6})), {out, 6}, {2, 3, 4, 6},
                                                                   false, scale, 0.5)};
                     }});
    cases.push_back({"upsample_bicubic2d_backward" + words, [=](const To& to) -> Tensors {
                       return {at::upsample_bicubic2d_backward(to(floats({2, 3, out, 6})), {out, 6}, {2, 3, 4, 6},
                                                               false, scale, 1.3)};
                     }});
  }
  cases.push_back(
      {"upsample_bilinear2d_backward with scales, all sides equal", [](const To& to) -> Tensors {
         return {at::upsample_bilinear2d_backward(to(floats({2, 3, 4, 6})), {4, 6}, {2, 3, 4, 6}, false, 1.2, 1.3)};
       }});
  cases.push_back({"upsample_trilinear3d_backward with scales, all sides equal", [](const To& to) -> Tensors {
                     return {at::upsample_trilinear3d_backward(to(floats({2, 3, 5, 4, 6})), {5, 4, 6}, {2, 3, 5, 4, 6},
                                                               false, 1.2, 1.3, 1.3)};
                   }});
  cases.push_back({"upsample_linear1d_backward with scales, all sides equal", [](const To& to) -> Tensors {
                     return {at::upsample_linear1d_backward(to(floats({2, 3, 4})), {4}, {2, 3, 4}, false, 1.3)};
                   }});
}

void add_padding(Cases& cases) {
  for (const bool swapped : {false, true}) {  // equal sizes, with other weights
    const std::vector<int64_t> padding = swapped ? std::vector<int64_t>{1, 3} : std::vector<int64_t>{3, 1};
    cases.push_back({"reflection_pad1d_backward", [=](const To& to) -> Tensors {
                       return {at::reflection_pad1d_backward(to(floats({2, 3, 9})), to(floats({2, 3, 5})), padding)};
                     }});
    cases.push_back({"replication_pad1d_backward", [=](const To& to) -> Tensors {
                       return {at::replication_pad1d_backward(to(floats({2, 3, 9})), to(floats({2, 3, 5})), padding)};
                     }});
  }
  cases.push_back({"reflection_pad3d_backward", [](const To& to) -> Tensors {
                     return {at::reflection_pad3d_backward(to(floats({2, 3, 6, 7, 9})), to(floats({2, 3, 4, 4, 5})),
                                                           {3, 1, 1, 2, 0, 2})};
                   }});
  cases.push_back(
      {"replication_pad2d_backward", [](const To& to) -> Tensors {
         return {at::replication_pad2d_backward(to(flipped({2, 3, 8, 9})), to(floats({2, 3, 4, 5})), {3, 1, 0, 4})};
       }});
  cases.push_back({"replication_pad3d_backward", [](const To& to) -> Tensors {
                     return {at::replication_pad3d_backward(to(floats({2, 3, 6, 7, 9})), to(floats({2, 3, 4, 4, 5})),
                                                            {3, 1, 1, 2, 0, 2})};
                   }});
}

void add_pooling(Cases& cases) {
  for (const std::array<int64_t, 4>& s :
       {std::array<int64_t, 4>{14, 14, 7, 7}, {10, 9, 7, 7}, {3, 5, 7, 7}, {1, 6, 3, 4}, {8, 8, 1, 1}, {7, 7, 7, 7}}) {
    cases.push_back(
        {"_adaptive_avg_pool2d_backward to " + std::to_string(s[2]), [s](const To& to) -> Tensors {
           return {at::_adaptive_avg_pool2d_backward(to(flipped({2, 3, s[2], s[3]})), to(floats({2, 3, s[0], s[1]})))};
         }});
  }
  cases.push_back(
      {"_adaptive_avg_pool3d_backward", [](const To& to) -> Tensors {
         return {at::_adaptive_avg_pool3d_backward(to(floats({2, 3, 2, 4, 5})), to(floats({2, 3, 5, 4, 3})))};
       }});
  for (const bool ceil : {false, true})
    for (const bool counts : {false, true})
      for (const std::optional<int64_t> divisor : {std::optional<int64_t>(), std::optional<int64_t>(5)})
        cases.push_back({"avg_pool3d_backward", [=](const To& to) -> Tensors {
                           const Tensor input = floats({2, 3, 6, 5, 7});
                           const Tensor output = at::avg_pool3d(input, {3, 2, 3}, {2, 2, 2}, {1, 0, 1}, ceil, counts);
                           return {at::avg_pool3d_backward(to(at::randn_like(output)), to(input), {3, 2, 3}, {2, 2, 2},
                                                           {1, 0, 1}, ceil, counts, divisor)};
                         }});
  cases.push_back({"adaptive_max_pool2d_backward", [](const To& to) -> Tensors {
                     const Tensor input = floats({2, 3, 7, 5});
                     const auto [output, indices] = at::adaptive_max_pool2d(input, {4, 3});
                     return {at::adaptive_max_pool2d_backward(to(at::randn_like(output)), to(input), to(indices))};
                   }});
  cases.push_back({"adaptive_max_pool3d_backward",
                   [](const To& to) -> Tensors {
                     const Tensor input = floats({2, 3, 7, 5, 6});
                     const auto [output, indices] = at::adaptive_max_pool3d(input, {4, 3, 2});
                     return {at::adaptive_max_pool3d_backward(to(at::randn_like(output)), to(input), to(indices))};
                   },
                   /*is_silent=*/true});
  cases.push_back({"max_pool3d_with_indices_backward", [](const To& to) -> Tensors {
                     const Tensor input = floats({2, 3, 7, 5, 6});
                     const auto [output, indices] = at::max_pool3d_with_indices(input, {3}, {2}, {1}, {1});
                     return {at::max_pool3d_with_indices_backward(to(at::randn_like(output)), to(input), {3}, {2}, {1},
                                                                  {1}, false, to(indices))};
                   }});
  cases.push_back(
      {"fractional_max_pool2d_backward", [](const To& to) -> Tensors {
         const Tensor input = floats({2, 3, 7, 5});
         const auto [output, indices] = at::fractional_max_pool2d(input, {3, 2}, {4, 3}, at::rand({2, 3, 2}));
         return {
             at::fractional_max_pool2d_backward(to(at::randn_like(output)), to(input), {3, 2}, {4, 3}, to(indices))};
       }});
  cases.push_back(
      {"fractional_max_pool3d_backward", [](const To& to) -> Tensors {
         const Tensor input = floats({2, 3, 7, 5, 6});
         const auto [output, indices] = at::fractional_max_pool3d(input, {3, 2, 2}, {4, 3, 2}, at::rand({2, 3, 3}));
         return {at::fractional_max_pool3d_backward(to(at::randn_like(output)), to(input), {3, 2, 2}, {4, 3, 2},
                                                    to(indices))};
       }});
  cases.push_back({"max_unpool2d", [](const To& to) -> Tensors {
                     const auto [output, indices] = at::max_pool2d_with_indices(floats({2, 3, 8, 6}), {2});
                     return {at::max_unpool2d(to(output), to(indices), {8, 6})};
                   }});
  cases.push_back({"max_unpool3d", [](const To& to) -> Tensors {
                     const auto [output, indices] = at::max_pool3d_with_indices(floats({2, 3, 4, 8, 6}), {2});
                     return {at::max_unpool3d(to(output), to(indices), {4, 8, 6}, {2, 2, 2}, {0, 0, 0})};
                   }});
}

template <typename Pair>
Tensors both(const Pair& pair) {
  return {std::get<0>(pair), std::get<1>(pair)};
}

void add_grid_samplers(Cases& cases) {
  // Places inside, outside, and in the middle of elements.
  const auto grid = [](IntArrayRef sizes) {
    Tensor places = at::randn(sizes).mul(0.9);
    places.view(-1).slice(0, 0, 4).copy_(at::tensor({-1.0, 1.0, 0.0, 2.6}));
    return places;
  };
  for (const int64_t interpolation : {0, 1, 2})
    for (const int64_t padding : {0, 1, 2})
      for (const bool corners : {false, true}) {
        const std::string words = " interpolation " + std::to_string(interpolation) + " padding " +
                                  std::to_string(padding) + (corners ? " with aligned corners" : "");
        cases.push_back({"grid_sampler_2d_backward" + words, [=](const To& to) -> Tensors {
                           return both(at::grid_sampler_2d_backward(to(flipped({2, 3, 3, 4})), to(floats({2, 3, 5, 6})),
                                                                    to(grid({2, 3, 4, 2})), interpolation, padding,
                                                                    corners, {true, true}));
                         }});
        if (interpolation == 2) continue;  // for pictures alone
        cases.push_back({"grid_sampler_3d_backward" + words, [=](const To& to) -> Tensors {
                           return both(at::grid_sampler_3d_backward(
                               to(floats({2, 3, 2, 3, 4})), to(floats({2, 3, 4, 5, 6})), to(grid({2, 2, 3, 4, 3})),
                               interpolation, padding, corners, {true, true}));
                         }});
      }
  cases.push_back({"grid_sampler_2d_backward at no place", [=](const To& to) -> Tensors {
                     Tensor places = grid({1, 2, 2, 2});
                     places.view(-1).slice(0, 0, 3).copy_(at::tensor({1e30, -1e30, 3e9}));
                     return both(at::grid_sampler_2d_backward(to(floats({1, 2, 2, 2})), to(floats({1, 2, 3, 3})),
                                                              to(places), 0, 0, false, {true, true}));
                   }});
  cases.push_back({"grid_sampler_2d_backward of no samples", [=](const To& to) -> Tensors {
                     return both(at::grid_sampler_2d_backward(to(floats({0, 2, 2, 2})), to(floats({0, 2, 3, 3})),
                                                              to(floats({0, 2, 2, 2})), 0, 0, false, {true, true}));
                   }});
}

void add_places_along_a_dimension(Cases& cases) {
  const auto few = [](IntArrayRef sizes) { return classes(3, sizes); };  // many equal places
  for (const bool includes : {false, true}) {
    const std::string words = includes ? " with the start" : "";
    for (const char* reduce : {"prod", "amax", "amin"}) {
      cases.push_back({"scatter_reduce.two " + std::string(reduce) + words,
                       [=](const To& to) -> Tensors {
                         return {at::scatter_reduce(to(floats({4, 5, 3})), 1, to(few({3, 7, 2})), to(floats({4, 8, 3})),
                                                    reduce, includes)};
                       },
                       /*is_silent=*/std::string_view(reduce) != "prod"});
    }
    for (const char* reduce : {"prod", "mean", "amax", "amin"}) {
      cases.push_back({"index_reduce " + std::string(reduce) + words, [=](const To& to) -> Tensors {
                         return {at::index_reduce(to(flipped({3, 5, 4})), 1, to(few({9})), to(floats({3, 9, 4})),
                                                  reduce, includes)};
                       }});
      cases.push_back({"index_reduce_ of whole numbers " + std::string(reduce) + words, [=](const To& to) -> Tensors {
                         return {
                             to(classes(9, {5})).index_reduce_(0, to(few({9})), to(classes(9, {9})), reduce, includes)};
                       }});
    }
  }
  cases.push_back({"scatter_reduce_.two", [=](const To& to) -> Tensors {
                     return {to(flipped({4, 5})).scatter_reduce_(-1, to(few({2, 9})), to(floats({4, 9})), "prod")};
                   }});
  cases.push_back({"scatter.reduce", [=](const To& to) -> Tensors {
                     return {at::scatter(to(floats({4, 5})), 0, to(few({7, 5})), to(floats({7, 5})), "multiply")};
                   }});
  cases.push_back({"scatter_.reduce", [=](const To& to) -> Tensors {
                     return {to(floats({4})).scatter_(0, to(few({7})), to(floats({7})), "multiply")};
                   }});
  cases.push_back({"kthvalue",
                   [](const To& to) -> Tensors {
                     return both(at::kthvalue(to(at::randperm(30).view({5, 6}).to(at::kFloat)), 2, 0, true));
                   },
                   /*is_silent=*/true});
  cases.push_back({"nanmedian.dim", [](const To& to) -> Tensors {
                     Tensor x = at::randperm(30).to(at::kFloat).view({5, 6});
                     x[2][3] = std::numeric_limits<float>::quiet_NaN();
                     x[2][4] = std::numeric_limits<float>::quiet_NaN();
                     x[4].fill_(std::numeric_limits<float>::quiet_NaN());
                     return {std::get<0>(at::nanmedian(to(x), 1, true)), std::get<1>(at::nanmedian(to(x), 1))[2]};
                   }});
  for (const bool falls : {false, true}) {
    const auto line = [=](int64_t size) { return falls ? at::rand({size, 1}) : at::rand({1, size}); };
    cases.push_back({"cumprod", [=](const To& to) -> Tensors { return {at::cumprod(to(line(9)), falls ? 0 : 1)}; },
                     /*is_silent=*/true});
    cases.push_back({"_logcumsumexp",
                     [=](const To& to) -> Tensors { return {at::logcumsumexp(to(line(9)), falls ? 0 : 1)}; },
                     /*is_silent=*/true});
  }
  for (const auto& [least, most] : {std::pair{0.0, 0.0}, {-1.0, 1.5}})
    cases.push_back({"histc from " + std::to_string(least), [least = least, most = most](const To& to) -> Tensors {
                       Tensor x = floats({6, 7});
                       x.view(-1).slice(0, 0, 3).copy_(at::tensor({-1.0, 1.5, 0.25}));
                       if (least < most) x[3][3] = std::numeric_limits<float>::quiet_NaN();
                       return {at::histc(to(x), 10, least, most)};
                     }});
}

// Overloads that write into given tensors.
void add_writing(Cases& cases) {
  cases.push_back({"histc.out", [](const To& to) -> Tensors {
                     Tensor out = to(at::empty({0}));
                     return {at::histc_out(out, to(floats({20})), 5)};
                   }});
  cases.push_back({"median.dim_values", [](const To& to) -> Tensors {
                     Tensor values = to(at::empty({0})), places = to(at::empty({0}, at::kLong));
                     return both(at::median_out(values, places, to(at::randperm(15).view({3, 5}).to(at::kFloat)), 1));
                   }});
  cases.push_back(
      {"upsample_bilinear2d_backward.grad_input", [](const To& to) -> Tensors {
         Tensor out = to(at::empty({0}));
         return {at::upsample_bilinear2d_backward_out(out, to(floats({2, 3, 9, 7})), {9, 7}, {2, 3, 4, 5}, false)};
       }});
}

void add_others(Cases& cases) {
  for (const int64_t reduction : {at::Reduction::None, at::Reduction::Mean, at::Reduction::Sum}) {
    cases.push_back({"nll_loss2d_forward reduction " + std::to_string(reduction),
                     [=](const To& to) -> Tensors {
                       Tensor target = classes(4, {2, 3, 5});
                       target.select(2, 1).fill_(-100);
                       return both(at::nll_loss2d_forward(to(flipped({2, 4, 3, 5})), to(target), to(at::rand({4})),
                                                          reduction, -100));
                     },
                     /*is_silent=*/reduction == at::Reduction::None});
  }
  cases.push_back({"_ctc_loss_backward", [](const To& to) -> Tensors {
                     const Tensor x = to(floats({7, 2, 5}).log_softmax(2)), targets = to(classes(4, {2, 3}).add(1));
                     const auto [loss, alpha] = at::_ctc_loss(x, targets, {7, 6}, {3, 2});
                     return {loss, at::_ctc_loss_backward(to(floats({2})), x, targets, {7, 6}, {3, 2}, loss, alpha, 0)};
                   }});
  for (const bool accumulate : {false, true}) {
    cases.push_back({"put_ " + std::to_string(accumulate), [=](const To& to) -> Tensors {
                       Tensor self = to(floats({3, 4}));
                       const Tensor index = accumulate ? all({0, 0, 5, -1, 0}) : all({0, 7, 5, -1, 3});
                       return {self.put_(to(index), to(floats({5})), accumulate)};
                     }});
    cases.push_back({"put_ into a transposed tensor " + std::to_string(accumulate), [=](const To& to) -> Tensors {
                       Tensor self = to(floats({3, 4})).t();
                       return {self.put_(to(all({0, 7, 5, -1, 3})), to(floats({5})), accumulate)};
                     }});
  }
  cases.push_back({"bincount with weights", [](const To& to) -> Tensors {
                     return {at::bincount(to(all({0, 3, 3, 1, 3})), to(floats({5})), 7)};
                   }});
  cases.push_back({"median.dim", [](const To& to) -> Tensors {
                     Tensor x = at::randperm(30).to(at::kFloat).view({5, 6});
                     x[2][3] = std::numeric_limits<float>::quiet_NaN();
                     return both(at::median(to(x), 1, true));
                   }});
  cases.push_back({"median.dim of whole numbers", [](const To& to) -> Tensors {
                     return both(at::median(to(at::randperm(30).view({5, 6})), 0, false));
                   }});
  cases.push_back({"_embedding_bag_dense_backward", [](const To& to) -> Tensors {
                     const Tensor table = floats({6, 4}), indices = all({0, 2, 2, 5, 1}), offsets = all({0, 3, 3});
                     const auto [output, bags, sizes, places] =
                         at::_embedding_bag(table, indices, offsets, false, /*mode=*/2);
                     return {at::_embedding_bag_dense_backward(to(at::randn_like(output)), to(indices), to(bags),
                                                               to(sizes), to(places), 6, false, 2, {})};
                   }});
}

}  // namespace

std::vector<NondeterministicCase> nondeterministic_cases() {
  Cases cases;
  add_upsampling(cases);
  add_equal_sides(cases);
  add_padding(cases);
  add_pooling(cases);
  add_grid_samplers(cases);
  add_places_along_a_dimension(cases);
  add_writing(cases);
  add_others(cases);
  return cases;
}

}  // namespace estrain::operators
