// The portable depthwise convolution, batch and layer normalisation, pooling, upsampling and embedding gradient against
// LibTorch's own calls, in one process, alternating. Both sides allocate their results.
//
//   layers [--isa avx512|avx2|fma128|baseline] [--threads N] [--rounds N] [--filter TEXT] [--json]
//
// ratio = LibTorch's time / ours, of the fastest rounds (and of the medians): above 1 we are faster. LibTorch's own
// instruction set is limited from outside: ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 for --isa avx2.

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_adaptive_avg_pool2d.h>
#include <ATen/ops/_adaptive_avg_pool2d_backward.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/avg_pool2d_backward.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/embedding_dense_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/max_pool2d_with_indices.h>
#include <ATen/ops/max_pool2d_with_indices_backward.h>
#include <ATen/ops/native_batch_norm.h>
#include <ATen/ops/native_batch_norm_backward.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/upsample_bilinear2d.h>
#include <ATen/ops/upsample_bilinear2d_backward.h>
#include <ATen/ops/upsample_nearest2d.h>
#include <ATen/ops/upsample_nearest2d_backward.h>
#include <ATen/ops/zeros.h>

#include "kernels/portable/batch_norm.h"
#include "kernels/portable/depthwise.h"
#include "kernels/portable/embedding.h"
#include "kernels/portable/layer_norm.h"
#include "kernels/portable/pooling.h"
#include "kernels/portable/upsample.h"
#include "scripts/benchmarks/kernels/side_by_side.h"

namespace {

using namespace estrain::kernels;
using namespace estrain::kernels::portable;
using namespace estrain::benchmarks;
using at::Tensor;

const float* in(const Tensor& x) { return x.const_data_ptr<float>(); }
float* out(Tensor& x) { return x.data_ptr<float>(); }
std::string text(int64_t x) { return std::to_string(x); }

class Bench {
 public:
  explicit Bench(const Options& options) : options_(options), execution_(execution_of(options)) {}

  // Both give the tensor to compare.
  template <typename Ours, typename Theirs>
  void row(const std::string& name, Ours ours, Theirs theirs) {
    if (name.find(options_.filter) == std::string::npos) return;
    Row row = alternate(name, options_, ours, theirs);
    const Tensor a = ours().contiguous(), b = theirs().contiguous();
    row.difference = largest_difference(in(a), in(b), a.numel());
    rows_.push_back(row);
  }
  const Execution& execution() const { return execution_; }
  void print_rows() const { print("layers", rows_, options_); }
  bool empty() const { return rows_.empty(); }

 private:
  Options options_;
  Execution execution_;
  std::vector<Row> rows_;
};

void depthwise(Bench& bench, int64_t batch, int64_t channels, int64_t size, int64_t stride) {
  const int64_t output = (size - 1) / stride + 1;
  const std::string name = "depthwise " + text(channels) + "@" + text(size) + "/" + text(stride) + " ";
  const Tensor x = at::randn({batch, channels, size, size}), w = at::randn({channels, 1, 3, 3});
  const Tensor dy = at::randn({batch, channels, output, output});
  DepthwiseShape s{.n = batch, .channels = channels, .height = size, .width = size};
  s.output_height = s.output_width = output;
  s.kernel_height = s.kernel_width = 3;
  s.stride_height = s.stride_width = stride;
  s.padding_height = s.padding_width = 1;
  bench.row(
      name + "forward",
      [&] {
        Tensor y = at::empty(dy.sizes());
        depthwise_forward(out(y), in(x), in(w), nullptr, s, bench.execution());
        return y;
      },
      [&] {
        return at::convolution(x, w, {}, {stride, stride}, {1, 1}, {1, 1}, false, {0, 0}, channels);
      });
  const auto theirs = [&](std::array<bool, 3> mask) {
    return at::convolution_backward(dy, x, w, at::OptionalIntArrayRef(), {stride, stride}, {1, 1}, {1, 1}, false,
                                    {0, 0}, channels, mask);
  };
  bench.row(
      name + "backward data",
      [&] {
        Tensor dx = at::empty(x.sizes());
        depthwise_backward_data(out(dx), in(dy), in(w), s, bench.execution());
        return dx;
      },
      [&] {
        return std::get<0>(theirs({true, false, false}));
      });
  bench.row(
      name + "backward filter",
      [&] {
        Tensor dw = at::empty(w.sizes());
        depthwise_backward_filter(out(dw), in(dy), in(x), s, bench.execution());
        return dw;
      },
      [&] {
        return std::get<1>(theirs({false, true, false}));
      });
}

void batch_norm(Bench& bench, int64_t batch, int64_t channels, int64_t size) {
  const std::string name = "batch_norm " + text(batch) + "x" + text(channels) + "@" + text(size) + " ";
  const Tensor x = at::randn({batch, channels, size, size}), dy = at::randn(x.sizes());
  const Tensor weight = at::randn({channels}), bias = at::randn({channels});
  Tensor running_mean = at::zeros({channels}), running_var = at::ones({channels});
  Tensor mean = at::empty({channels}), invstd = at::empty({channels});
  const BatchNormShape s{batch, channels, size * size};
  const BatchNormParameters parameters{in(weight), in(bias), 1e-5};
  bench.row(
      name + "forward",
      [&] {
        Tensor y = at::empty(x.sizes());
        batch_norm_train(out(y), out(mean), out(invstd), in(x), s, parameters,
                         {out(running_mean), out(running_var), 0.1}, bench.execution());
        return y;
      },
      [&] { return std::get<0>(at::native_batch_norm(x, weight, bias, running_mean, running_var, true, 0.1, 1e-5)); });
  bench.row(
      name + "backward",
      [&] {
        Tensor dx = at::empty(x.sizes()), dweight = at::empty({channels}), dbias = at::empty({channels});
        batch_norm_train_backward({out(dx), out(dweight), out(dbias)}, in(dy), in(x), s, in(weight), in(mean),
                                  in(invstd), bench.execution());
        return dx;
      },
      [&] {
        return std::get<0>(at::native_batch_norm_backward(dy, x, weight, running_mean, running_var, mean, invstd, true,
                                                          1e-5, {true, true, true}));
      });
  bench.row(
      name + "evaluation",
      [&] {
        Tensor y = at::empty(x.sizes());
        batch_norm_eval(out(y), in(x), s, parameters, in(running_mean), in(running_var), bench.execution());
        return y;
      },
      [&] { return std::get<0>(at::native_batch_norm(x, weight, bias, running_mean, running_var, false, 0.1, 1e-5)); });
}

void layer_norm(Bench& bench, int64_t rows, int64_t d) {
  const std::string name = "layer_norm " + text(rows) + "x" + text(d) + " ";
  const Tensor x = at::randn({rows, d}), dy = at::randn({rows, d}), gamma = at::randn({d}), beta = at::randn({d});
  Tensor mean = at::empty({rows, 1}), rstd = at::empty({rows, 1});
  bench.row(
      name + "forward",
      [&] {
        Tensor y = at::empty({rows, d});
        portable::layer_norm(out(y), out(mean), out(rstd), in(x), {rows, d}, {in(gamma), in(beta), 1e-5},
                             bench.execution());
        return y;
      },
      [&] { return std::get<0>(at::native_layer_norm(x, {d}, gamma, beta, 1e-5)); });
  bench.row(
      name + "backward",
      [&] {
        Tensor dx = at::empty({rows, d}), dgamma = at::empty({d}), dbeta = at::empty({d});
        layer_norm_backward({out(dx), out(dgamma), out(dbeta)}, in(dy), in(x), {rows, d}, in(gamma), in(mean), in(rstd),
                            bench.execution());
        return dx;
      },
      [&] {
        return std::get<0>(at::native_layer_norm_backward(dy, x, {d}, mean, rstd, gamma, beta, {true, true, true}));
      });
}

void embedding(Bench& bench, int64_t vocabulary, int64_t d, int64_t n) {
  const Tensor indices = at::randint(vocabulary, {n}, at::kLong), dy = at::randn({n, d});
  bench.row(
      "embedding " + text(n) + " of " + text(vocabulary) + "x" + text(d),
      [&] {
        Tensor dweight = at::empty({vocabulary, d});
        embedding_backward(out(dweight), in(dy), indices.const_data_ptr<int64_t>(),
                           {.vocabulary = vocabulary, .d = d, .n = n}, bench.execution());
        return dweight;
      },
      [&] { return at::embedding_dense_backward(dy, indices, vocabulary, -1, false); });
}

struct Window {
  int64_t size, stride, padding;
};

void pooling(Bench& bench, int64_t channels, int64_t size, const Window& window) {
  const std::string name = text(channels) + "@" + text(size) + " " + text(window.size) + "x" + text(window.size) + "/" +
                           text(window.stride) + " ";
  const int64_t batch = 4, output = (size + 2 * window.padding - window.size) / window.stride + 1;
  const Tensor x = at::randn({batch, channels, size, size}), dy = at::randn({batch, channels, output, output});
  PoolingShape s{.planes = batch * channels, .height = size, .width = size};
  s.output_height = s.output_width = output;
  s.kernel_height = s.kernel_width = window.size;
  s.stride_height = s.stride_width = window.stride;
  s.padding_height = s.padding_width = window.padding;
  const std::vector<int64_t> kernel(2, window.size), stride(2, window.stride), padding(2, window.padding), one(2, 1);
  Tensor indices = at::empty(dy.sizes(), at::kLong);
  bench.row(
      "max_pool " + name + "forward",
      [&] {
        Tensor y = at::empty(dy.sizes()), places = at::empty(dy.sizes(), at::kLong);
        max_pool(out(y), places.data_ptr<int64_t>(), in(x), s, bench.execution());
        return y;
      },
      [&] { return std::get<0>(at::max_pool2d_with_indices(x, kernel, stride, padding, one, false)); });
  max_pool(out(const_cast<Tensor&>(dy)), indices.data_ptr<int64_t>(), in(x), s);
  bench.row(
      "max_pool " + name + "backward",
      [&] {
        Tensor dx = at::empty(x.sizes());
        max_pool_backward(out(dx), in(dy), indices.const_data_ptr<int64_t>(), s, bench.execution());
        return dx;
      },
      [&] { return at::max_pool2d_with_indices_backward(dy, x, kernel, stride, padding, one, false, indices); });
  bench.row(
      "average_pool " + name + "forward",
      [&] {
        Tensor y = at::empty(dy.sizes());
        average_pool(out(y), in(x), s, bench.execution());
        return y;
      },
      [&] { return at::avg_pool2d(x, kernel, stride, padding); });
  bench.row(
      "average_pool " + name + "backward",
      [&] {
        Tensor dx = at::empty(x.sizes());
        average_pool_backward(out(dx), in(dy), s, bench.execution());
        return dx;
      },
      [&] { return at::avg_pool2d_backward(dy, x, kernel, stride, padding, false, true, std::nullopt); });
}

void adaptive(Bench& bench, int64_t channels, int64_t size, int64_t output) {
  const std::string name = "adaptive_average_pool " + text(channels) + "@" + text(size) + " to " + text(output) + " ";
  const Tensor x = at::randn({4, channels, size, size}), dy = at::randn({4, channels, output, output});
  const AdaptivePoolingShape s{4 * channels, size, size, output, output};
  bench.row(
      name + "forward",
      [&] {
        Tensor y = at::empty(dy.sizes());
        adaptive_average_pool(out(y), in(x), s, bench.execution());
        return y;
      },
      [&] {
        return at::_adaptive_avg_pool2d(x, {output, output});
      });
  bench.row(
      name + "backward",
      [&] {
        Tensor dx = at::empty(x.sizes());
        adaptive_average_pool_backward(out(dx), in(dy), s, bench.execution());
        return dx;
      },
      [&] { return at::_adaptive_avg_pool2d_backward(dy, x); });
}

void upsample(Bench& bench, int64_t channels, int64_t size, int64_t output) {
  const std::string name = "upsample " + text(channels) + "@" + text(size) + " to " + text(output) + " ";
  const Tensor x = at::randn({4, channels, size, size}), dy = at::randn({4, channels, output, output});
  UpsampleShape s{.planes = 4 * channels, .height = size, .width = size};
  s.output_height = s.output_width = output;
  const std::vector<int64_t> sizes = {output, output};
  const auto ours = [&](auto kernel, const Tensor& from, const Tensor& like) {
    return [&bench, &s, &from, &like, kernel] {
      Tensor to = at::empty(like.sizes());
      kernel(out(to), in(from), s, bench.execution());
      return to;
    };
  };
  bench.row(name + "nearest forward", ours(upsample_nearest, x, dy), [&] { return at::upsample_nearest2d(x, sizes); });
  bench.row(name + "nearest backward", ours(upsample_nearest_backward, dy, x),
            [&] { return at::upsample_nearest2d_backward(dy, sizes, x.sizes()); });
  bench.row(name + "bilinear forward", ours(upsample_bilinear, x, dy),
            [&] { return at::upsample_bilinear2d(x, sizes, false); });
  bench.row(name + "bilinear backward", ours(upsample_bilinear_backward, dy, x),
            [&] { return at::upsample_bilinear2d_backward(dy, sizes, x.sizes(), false); });
}

void all(Bench& bench) {
  // ShuffleNetV2 and MobileNetV2 at 224.
  for (const auto& [channels, size, stride] : {std::array<int64_t, 3>{24, 56, 2},
                                               {58, 56, 2},
                                               {58, 28, 1},
                                               {116, 28, 2},
                                               {116, 14, 1},
                                               {232, 14, 2},
                                               {232, 7, 1},
                                               {32, 112, 1},
                                               {96, 112, 2},
                                               {144, 56, 1},
                                               {144, 56, 2},
                                               {192, 28, 1},
                                               {192, 28, 2},
                                               {384, 14, 1},
                                               {576, 14, 1},
                                               {576, 14, 2},
                                               {960, 7, 1}}) {
    depthwise(bench, 4, channels, size, stride);
  }
  // ResNet-18 at 32, batch 8; ResNet-50 at 224, batch 4.
  for (const auto& [batch, channels, size] : {std::array<int64_t, 3>{8, 64, 16},
                                              {8, 64, 8},
                                              {8, 128, 4},
                                              {8, 256, 2},
                                              {8, 512, 1},
                                              {8, 64, 32},
                                              {8, 128, 16},
                                              {8, 256, 8},
                                              {8, 512, 4},
                                              {4, 64, 112},
                                              {4, 64, 56},
                                              {4, 256, 56},
                                              {4, 128, 28},
                                              {4, 512, 28},
                                              {4, 256, 14},
                                              {4, 1024, 14},
                                              {4, 512, 7},
                                              {4, 2048, 7},
                                              {64, 512, 1}}) {
    batch_norm(bench, batch, channels, size);
  }
  for (const int64_t rows : {512, 2048}) {
    for (const int64_t d : {64, 128, 256, 384}) layer_norm(bench, rows, d);
  }
  embedding(bench, 256, 64, 512);
  embedding(bench, 256, 384, 2048);
  embedding(bench, 1024, 128, 512);
  embedding(bench, 50257, 384, 1024);
  pooling(bench, 64, 112, {3, 2, 1});
  pooling(bench, 24, 112, {3, 2, 1});
  pooling(bench, 64, 32, {2, 2, 0});
  pooling(bench, 512, 14, {2, 2, 0});
  pooling(bench, 6, 28, {2, 2, 0});
  pooling(bench, 192, 28, {3, 1, 1});
  adaptive(bench, 512, 7, 7);
  adaptive(bench, 256, 13, 6);
  upsample(bench, 64, 28, 56);
  upsample(bench, 32, 40, 56);
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  at::set_num_threads(options.threads);
  Pool threads(options.threads);
  pool = &threads;
  Bench bench(options);
  all(bench);
  if (bench.empty()) return 1;
  bench.print_rows();
  return 0;
}
