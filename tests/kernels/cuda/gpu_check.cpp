// Checks the CUDA kernels on a GPU: their bits against the CPU's, by family, and gemm's speed against cuBLAS; pinned
// algorithms of cuDNN and cuBLASLt against sums in double precision, and for repeatable bits.
//
//   gpu_check [--seeds N] [--seconds S] [PART…]   these parts, or all; N cases of each family (144); a part begins no
//                                                 case after S seconds (default: no limit)
//   gpu_check --list                              the parts: families, then pinned_product and pinned_convolution
//                                                 (where built with cuDNN), then speed
//
// Prints a line of JSON on standard output for each result:
//
//   {"device": "NVIDIA H100", "compute_capability": "9.0", "seeds": 144}
//   {"part": "gemm", "cases": 144, "differing": 0, "first": "", "seconds": 1.5}
//   {"part": "pinned_product", "cases": 144, "without": 0, "algorithms": 1500, "unfit": 0, "failing": 0, "first": "",
//    "each": [12], "seconds": 20.1}
//   {"part": "speed", "m": 2048, "n": 2048, "k": 2048, "transposed": "nn", "tflops": 30.1, "cublas_tflops": 33.0,
//    "ratio": 0.91}
//
// "first": the first case that differed, or that an exception ended: its seed, shape and element. "without": shapes
// that no algorithm was found for; "algorithms": tried, over all shapes, "each" by shape; "unfit": of which do not run,
// or not twice alike, so that training passes over them. Standard error tells each of these and of the faults. Without
// libcublas "cublas_tflops" and "ratio" are null. Exit code 0: all bits agree, and pinned algorithms are right; 1: some
// do not; 3: after the last part that is told of, the GPU's errors stay, and the others are left out; 77: there is no
// GPU, nothing was done.

#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <limits>
#include <string>
#include <vector>

#include "kernels/portable/gemm.h"
#include "tests/kernels/cuda/cases.h"
#include "tests/kernels/cuda/twin.h"
#include "tests/kernels/pinned/pinned_checks.h"

namespace {

using namespace estrain::kernels;

constexpr int kErrorsStay = 3, kNoGpu = 77;
constexpr const char* kProduct = "pinned_product";
constexpr const char* kConvolution = "pinned_convolution";
constexpr const char* kSpeed = "speed";

struct Limits {
  uint32_t seeds = 144;
  double seconds = std::numeric_limits<double>::infinity();  // of a part
};

// JSON-escapes a text; control characters become spaces.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return out + "\"";
}

void tell(const std::string& line) {
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

// A sticky error, which later calls return too: only another process can continue.
bool errors_stay() {
  cudaGetLastError();
  return cudaDeviceSynchronize() != cudaSuccess;
}

// Calls `one(seed)` for each seed within the limits, as long as the GPU works. Returns the seconds that it took.
template <typename One>
double for_each_seed(const Limits& limits, One one) {
  const auto begin = std::chrono::steady_clock::now();
  std::chrono::duration<double> time{};
  for (uint32_t seed = 0; seed < limits.seeds && time.count() < limits.seconds; ++seed) {
    one(seed);
    time = std::chrono::steady_clock::now() - begin;
    if (errors_stay()) break;
  }
  return time.count();
}

bool check_family(const test::Case& one, const Limits& limits) {
  uint32_t cases = 0, differing = 0;
  std::string first;
  const double seconds = for_each_seed(limits, [&](uint32_t seed) {
    std::string difference;
    try {
      difference = one.run(seed);
    } catch (const std::exception& error) {
      difference = error.what();
    }
    ++cases;
    if (!difference.empty() && differing++ == 0) first = fmt::format("seed {}: {}", seed, difference);
  });
  tell(fmt::format(R"({{"part": "{}", "cases": {}, "differing": {}, "first": {}, "seconds": {:.3f}}})", one.family,
                   cases, differing, quoted(first), seconds));
  return differing == 0;
}

#ifdef ESTRAIN_HAS_PINNED
bool check_pinned(const char* part, void (*check)(uint32_t, test::PinnedOutcome&), const Limits& limits) {
  test::PinnedOutcome outcome;
  std::vector<uint32_t> each;
  const double seconds = for_each_seed(limits, [&](uint32_t seed) {
    const uint32_t before = outcome.algorithms;
    try {
      check(seed, outcome);
    } catch (const std::exception& error) {
      test::record(outcome, seed, {}, {}, error.what());
    }
    each.push_back(outcome.algorithms - before);
  });
  tell(fmt::format(R"({{"part": "{}", "cases": {}, "without": {}, "algorithms": {}, "unfit": {}, "failing": {}, )"
                   R"("first": {}, "each": [{}], "seconds": {:.3f}}})",
                   part, outcome.cases, outcome.without, outcome.algorithms, outcome.unfit, outcome.failing,
                   quoted(outcome.first), fmt::join(each, ", "), seconds));
  return outcome.failing == 0 && outcome.algorithms > 0;
}
#endif

// cuBLAS, if its library is found at run time.
struct Cublas {
  decltype(&cublasSgemm_v2) sgemm = nullptr;
  cublasHandle_t handle = nullptr;

  Cublas() {
    void* library = dlopen("libcublas.so.13", RTLD_NOW);
    if (library == nullptr) library = dlopen("libcublas.so", RTLD_NOW);
    if (library == nullptr) return;
    const auto create = reinterpret_cast<decltype(&cublasCreate_v2)>(dlsym(library, "cublasCreate_v2"));
    const auto found = reinterpret_cast<decltype(&cublasSgemm_v2)>(dlsym(library, "cublasSgemm_v2"));
    if (create != nullptr && found != nullptr && create(&handle) == CUBLAS_STATUS_SUCCESS) sgemm = found;
  }
};

// The best of a few runs of ten calls each, in seconds per call.
template <typename Call>
double seconds_of(Call call) {
  double best = 1e9;
  for (int run = 0; run < 5; ++run) {
    cudaDeviceSynchronize();
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < 10; ++i) call();
    cudaDeviceSynchronize();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / 10);
  }
  return best;
}

struct Product {
  int64_t m, n, k;
  bool a_transposed, b_transposed;
};

void time_gemm(const Product& p, const Cublas& cublas) {
  test::Draw draw(1);
  test::Twin<float> a(draw.normal(p.m * p.k)), b(draw.normal(p.k * p.n)), c(test::Draw::blank(p.m * p.n));
  portable::Gemm g = {.m = p.m, .n = p.n, .k = p.k};
  g.a = {a.there(), 0, p.a_transposed ? 1 : p.k, p.a_transposed ? p.m : 1};
  g.b = {b.there(), 0, p.b_transposed ? 1 : p.n, p.b_transposed ? p.k : 1};
  g.c = c.there();
  g.c_row_stride = p.n;
  const double work = 2e-12 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
  const double ours = work / seconds_of([&] { portable::gemm(g, test::on_device()); });
  std::string theirs = "null", ratio = "null";
  if (cublas.sgemm != nullptr) {  // column-major: C^T = B^T A^T
    const float one = 1, zero = 0;
    const auto m = static_cast<int>(p.m), n = static_cast<int>(p.n), k = static_cast<int>(p.k);
    const double speed = work / seconds_of([&] {
                           cublas.sgemm(cublas.handle, p.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
                                        p.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N, n, m, k, &one, b.there(),
                                        p.b_transposed ? k : n, a.there(), p.a_transposed ? m : k, &zero, c.there(), n);
                         });
    theirs = fmt::format("{:.2f}", speed);
    ratio = fmt::format("{:.3f}", ours / speed);
  }
  tell(fmt::format(
      R"({{"part": "{}", "m": {}, "n": {}, "k": {}, "transposed": "{}{}", "tflops": {:.2f}, "cublas_tflops": {}, )"
      R"("ratio": {}}})",
      kSpeed, p.m, p.n, p.k, p.a_transposed ? 't' : 'n', p.b_transposed ? 't' : 'n', ours, theirs, ratio));
}

void time_products() {
  const Cublas cublas;
  for (const int64_t n : {2048, 4096, 512, 1024}) time_gemm({n, n, n, false, false}, cublas);
  time_gemm({4096, 4096, 4096, false, true}, cublas);
  time_gemm({4096, 4096, 4096, true, false}, cublas);
  time_gemm({8192, 768, 3072, false, true}, cublas);
  time_gemm({768, 768, 16384, true, false}, cublas);
}

std::vector<std::string> all_parts() {
  std::vector<std::string> parts;
  for (const test::Case& one : test::all_cases()) parts.emplace_back(one.family);
#ifdef ESTRAIN_HAS_PINNED
  parts.insert(parts.end(), {kProduct, kConvolution});
#endif
  parts.emplace_back(kSpeed);
  return parts;
}

// Whether it passed.
bool run_part(const std::string& part, const Limits& limits) {
  for (const test::Case& one : test::all_cases()) {
    if (part == one.family) return check_family(one, limits);
  }
#ifdef ESTRAIN_HAS_PINNED
  if (part == kProduct) return check_pinned(kProduct, test::check_product, limits);
  if (part == kConvolution) return check_pinned(kConvolution, test::check_convolution, limits);
#endif
  time_products();
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  Limits limits;
  const std::vector<std::string> all = all_parts(), words(argv + 1, argv + argc);
  std::vector<std::string> parts;
  for (size_t i = 0; i < words.size(); ++i) {
    const bool has_value = i + 1 < words.size();
    if (words[i] == "--list") {
      fmt::print("{}\n", fmt::join(all, "\n"));
      return 0;
    }
    if (words[i] == "--seeds" && has_value) {
      limits.seeds = static_cast<uint32_t>(std::atoi(words[++i].c_str()));
    } else if (words[i] == "--seconds" && has_value) {
      limits.seconds = std::atof(words[++i].c_str());
    } else if (std::ranges::find(all, words[i]) != all.end()) {
      parts.push_back(words[i]);
    } else {
      fmt::print(stderr, "gpu_check: there is no part \"{}\" (--list tells them)\n", words[i]);
      return 2;
    }
  }
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    fmt::print(stderr, "gpu_check: there is no GPU here, or no driver for it; nothing was checked\n");
    return kNoGpu;
  }
  cudaDeviceProp device = {};
  cudaGetDeviceProperties(&device, 0);
  tell(fmt::format(R"({{"device": {}, "compute_capability": "{}.{}", "seeds": {}}})", quoted(device.name), device.major,
                   device.minor, limits.seeds));
  bool agrees = true;
  for (const std::string& part : parts.empty() ? all : parts) {
    agrees = run_part(part, limits) && agrees;
    if (errors_stay()) return kErrorsStay;
  }
  return agrees ? 0 : 1;
}
