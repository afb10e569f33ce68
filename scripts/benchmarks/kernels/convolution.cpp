// Convolutions layer by layer: kernels/portable/convolution.h against LibTorch's own calls, in turns, in one process.
//
//   convolution [--layers resnet50|resnet50x16|resnet18|vgg11|vgg11-32|lenet] [--threads N] [--isa avx512|avx2|fma128]
//               [--rounds N] [--json]
//
// Prints the ratio LibTorch's time / ours for each layer and direction (above 1: ours is faster), from the least and
// the median of the rounds, their geometric means, and the worst. --isa limits only our side; run with
// ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 to limit LibTorch's.

#include "kernels/portable/convolution.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/randn.h>
#include <c10/core/InferenceMode.h>
#include <malloc.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace {

using estrain::kernels::Execution;
using estrain::kernels::Isa;
using estrain::kernels::portable::Convolution;

struct Options {
  std::string layers = "resnet50";
  int threads = 1;
  Isa isa = estrain::kernels::best_isa();
  int rounds = 7;
  bool json = false;
};

// Threads that wait busily for the next call.
class Pool {
 public:
  explicit Pool(int threads) {
    for (int i = 1; i < threads; ++i) workers_.emplace_back([this] { work(); });
  }
  ~Pool() {
    stop_ = true;
    for (std::thread& worker : workers_) worker.join();
  }
  void run(int tasks, void (*task)(void*, int), void* context) {
    task_ = task, context_ = context, tasks_ = tasks;
    next_ = 0;
    busy_ = static_cast<int>(workers_.size());
    ++call_;
    take();
    while (busy_ != 0) {
    }
  }

 private:
  void take() {
    for (int i = next_++; i < tasks_; i = next_++) task_(context_, i);
  }
  void work() {
    for (int seen = 0; !stop_;) {
      if (call_ == seen) continue;
      seen = call_;
      take();
      --busy_;
    }
  }
  std::vector<std::thread> workers_;
  std::atomic<int> call_ = 0, next_ = 0, busy_ = 0;
  std::atomic<bool> stop_ = false;
  int tasks_ = 0;
  void (*task_)(void*, int) = nullptr;
  void* context_ = nullptr;
};
Pool* pool = nullptr;

Convolution layer(int64_t batch, int64_t in, int64_t out, int64_t size, int64_t filter, int64_t stride,
                  int64_t padding) {
  Convolution c;
  c.batch = batch;
  c.channels_in = in;
  c.channels_out = out;
  c.height = c.width = size;
  c.filter_height = c.filter_width = filter;
  c.stride_height = c.stride_width = stride;
  c.padding_height = c.padding_width = padding;
  return c;
}

std::vector<Convolution> resnet50(int64_t n) {
  std::vector<Convolution> all = {layer(n, 3, 64, 224, 7, 2, 3), layer(n, 64, 64, 56, 1, 1, 0)};
  int64_t in = 64, size = 56;
  for (int64_t width = 64; width <= 512; width *= 2) {
    const int64_t stride = width == 64 ? 1 : 2, out = 4 * width;
    if (width > 64) all.push_back(layer(n, in, width, size, 1, 1, 0));
    all.push_back(layer(n, width, width, size, 3, stride, 1));
    if (width > 64) all.push_back(layer(n, in, out, size, 1, stride, 0));
    size /= stride;
    all.push_back(layer(n, width, out, size, 1, 1, 0));
    all.push_back(layer(n, out, width, size, 1, 1, 0));
    if (width > 64) all.push_back(layer(n, width, width, size, 3, 1, 1));
    in = out;
  }
  return all;
}

std::vector<Convolution> resnet18_small(int64_t n) {
  std::vector<Convolution> all = {layer(n, 3, 64, 32, 7, 2, 3), layer(n, 64, 64, 8, 3, 1, 1)};
  for (int64_t width = 128, size = 8; width <= 512; width *= 2, size /= 2) {
    all.push_back(layer(n, width / 2, width, size, 3, 2, 1));
    all.push_back(layer(n, width / 2, width, size, 1, 2, 0));
    all.push_back(layer(n, width, width, size / 2, 3, 1, 1));
  }
  return all;
}

std::vector<Convolution> vgg11(int64_t n, int64_t s) {
  return {layer(n, 3, 64, s, 3, 1, 1),        layer(n, 64, 128, s / 2, 3, 1, 1),  layer(n, 128, 256, s / 4, 3, 1, 1),
          layer(n, 256, 256, s / 4, 3, 1, 1), layer(n, 256, 512, s / 8, 3, 1, 1), layer(n, 512, 512, s / 8, 3, 1, 1),
          layer(n, 512, 512, s / 16, 3, 1, 1)};
}

std::vector<Convolution> lenet() {
  return {layer(32, 1, 6, 28, 5, 1, 2), layer(32, 6, 16, 14, 5, 1, 0), layer(128, 1, 6, 28, 5, 1, 2),
          layer(128, 6, 16, 14, 5, 1, 0)};
}

std::vector<Convolution> layers_of(const std::string& name) {
  if (name == "resnet50") return resnet50(4);
  if (name == "resnet50x16") return resnet50(16);
  if (name == "resnet18") return resnet18_small(8);
  if (name == "vgg11") return vgg11(2, 224);
  if (name == "vgg11-32") return vgg11(8, 32);
  if (name == "lenet") return lenet();
  std::fprintf(stderr, "unknown layers %s\n", name.c_str());
  std::exit(2);
}

struct Row {
  std::string name;
  double ratio, median_ratio, gflops;
};

// With one thread, the thread's own time, which other programs on the machine hardly disturb.
double now(int threads) {
  timespec time;
  clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double seconds(const std::function<void()>& call, int times, int threads) {
  const double begin = now(threads);
  for (int i = 0; i < times; ++i) call();
  return (now(threads) - begin) / times;
}

double median(std::vector<double> x) {
  std::nth_element(x.begin(), x.begin() + static_cast<int64_t>(x.size() / 2), x.end());
  return x[x.size() / 2];
}

Row compare(const std::string& name, double flops, const std::function<void()>& ours,
            const std::function<void()>& theirs, const Options& options) {
  ours(), theirs();
  const int times = std::clamp(static_cast<int>(2e-3 / seconds(ours, 1, options.threads)), 1, 100);
  std::vector<double> our_times, their_times;
  for (int i = 0; i < options.rounds; ++i) {
    our_times.push_back(seconds(ours, times, options.threads));
    their_times.push_back(seconds(theirs, times, options.threads));
  }
  const double best = *std::min_element(our_times.begin(), our_times.end());
  return {name, *std::min_element(their_times.begin(), their_times.end()) / best,
          median(their_times) / median(our_times), flops / best * 1e-9};
}

std::string name_of(const Convolution& c) {
  return "n" + std::to_string(c.batch) + " " + std::to_string(c.channels_in) + ">" + std::to_string(c.channels_out) +
         "@" + std::to_string(c.height) + " " + std::to_string(c.filter_height) + "x" + std::to_string(c.filter_width) +
         "/" + std::to_string(c.stride_height);
}

void measure(const Convolution& c, const Options& options, std::vector<Row>& rows) {
  const at::Tensor x = at::randn({c.batch, c.channels_in, c.height, c.width});
  const at::Tensor w = at::randn({c.channels_out, c.channels_in, c.filter_height, c.filter_width});
  const at::Tensor dy = at::randn({c.batch, c.channels_out, c.output_height(), c.output_width()});
  const int64_t stride[] = {c.stride_height, c.stride_width}, padding[] = {c.padding_height, c.padding_width};
  const int64_t dilation[] = {1, 1}, zero[] = {0, 0};
  Execution execution = {.isa = options.isa, .threads = options.threads, .run = nullptr};
  if (pool != nullptr)
    execution.run = [](int tasks, void (*task)(void*, int), void* context) { pool->run(tasks, task, context); };
  namespace portable = estrain::kernels::portable;
  const auto backward = [&](bool data, bool filter) {
    return at::convolution_backward(dy, x, w, std::nullopt, stride, padding, dilation, false, zero, 1,
                                    {data, filter, false});
  };
  // Results are allocated by the call on both sides.
  const double flops = 2.0 * static_cast<double>(dy.numel() * c.channels_in * c.filter_height * c.filter_width);
  rows.push_back(compare(
      name_of(c) + " forward", flops,
      [&] {
        at::Tensor y = at::empty(dy.sizes());
        portable::convolution_forward(c, x.const_data_ptr<float>(), w.const_data_ptr<float>(), nullptr,
                                      y.mutable_data_ptr<float>(), execution);
      },
      [&] { at::convolution(x, w, std::nullopt, stride, padding, dilation, false, zero, 1); }, options));
  rows.push_back(compare(
      name_of(c) + " backward data", flops,
      [&] {
        at::Tensor dx = at::empty(x.sizes());
        portable::convolution_backward_data(c, dy.const_data_ptr<float>(), w.const_data_ptr<float>(),
                                            dx.mutable_data_ptr<float>(), execution);
      },
      [&] { backward(true, false); }, options));
  rows.push_back(compare(
      name_of(c) + " backward filter", flops,
      [&] {
        at::Tensor dw = at::empty(w.sizes());
        portable::convolution_backward_filter(c, x.const_data_ptr<float>(), dy.const_data_ptr<float>(),
                                              dw.mutable_data_ptr<float>(), execution);
      },
      [&] { backward(false, true); }, options));
}

void print(const std::vector<Row>& rows, const Options& options) {
  double product = 0, part[3] = {};
  for (size_t i = 0; i < rows.size(); ++i) product += std::log(rows[i].ratio), part[i % 3] += std::log(rows[i].ratio);
  const Row& worst =
      *std::min_element(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.ratio < b.ratio; });
  const double n = static_cast<double>(rows.size());
  if (options.json) {
    std::printf("{\"layers\":\"%s\",\"threads\":%d,\"rows\":[", options.layers.c_str(), options.threads);
    for (const Row& row : rows)
      std::printf("%s{\"name\":\"%s\",\"ratio\":%.3f,\"median_ratio\":%.3f,\"gflops\":%.1f}",
                  &row == rows.data() ? "" : ",", row.name.c_str(), row.ratio, row.median_ratio, row.gflops);
    std::printf("],\"geometric_mean\":%.3f,\"worst\":\"%s\"}\n", std::exp(product / n), worst.name.c_str());
    return;
  }
  for (const Row& row : rows)
    std::printf("%-40s %6.2f  (median %5.2f) %7.1f GFLOP/s\n", row.name.c_str(), row.ratio, row.median_ratio,
                row.gflops);
  std::printf(
      "%s, %s, %d thread(s): geometric mean %.3f (forward %.2f, backward data %.2f, backward filter %.2f); worst %.2f "
      "%s\n",
      options.layers.c_str(), estrain::kernels::isa_name(options.isa), options.threads, std::exp(product / n),
      std::exp(3 * part[0] / n), std::exp(3 * part[1] / n), std::exp(3 * part[2] / n), worst.ratio, worst.name.c_str());
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string key = argv[i];
    if (key == "--json") {
      options.json = true;
      continue;
    }
    if (i + 1 == argc) std::exit(2);
    const std::string value = argv[++i];
    if (key == "--layers") {
      options.layers = value;
    } else if (key == "--threads") {
      options.threads = std::stoi(value);
    } else if (key == "--rounds") {
      options.rounds = std::stoi(value);
    } else if (key == "--isa") {
      for (const Isa isa : {Isa::baseline, Isa::fma128, Isa::avx2, Isa::avx512})
        if (value == estrain::kernels::isa_name(isa)) options.isa = isa;
    } else {
      std::fprintf(stderr, "unknown option %s\n", key.c_str());
      std::exit(2);
    }
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  // Freed memory is kept, as in a running job: else the kernel's zeroing of new pages is what small layers measure.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  const c10::InferenceMode inference;
  at::set_num_threads(options.threads);
  Pool threads(options.threads);
  if (options.threads > 1) pool = &threads;
  std::vector<Row> rows;
  for (const Convolution& c : layers_of(options.layers)) measure(c, options, rows);
  print(rows, options);
}
