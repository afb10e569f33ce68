// The CUDA kernels on a GPU: their bits against the CPU's, family by family, and gemm's speed against cuBLAS; pinned
// algorithms of cuDNN and cuBLASLt against sums in double precision, and against themselves bit for bit.
//
//   gpu_check [SEEDS [FILE [bits]]]     SEEDS cases of each family (144); JSON to FILE (standard output); with "bits"
//                                       nothing is timed: "gemm" is empty
//
//   {"device": "NVIDIA H100", "compute_capability": "9.0", "seeds": 144,
//    "families": [{"family": "gemm", "cases": 144, "differing": 0, "first": "", "seconds": 1.5}, ...],
//    "gemm": [{"m": 2048, "n": 2048, "k": 2048, "transposed": "nn", "tflops": 30.1, "cublas_tflops": 33.0,
//              "ratio": 0.91}, ...],
//    "pinned": [{"operation": "product", "cases": 144, "without": 0, "algorithms": 1500, "failing": 0, "first": ""},
//    ...]}
//
// "without": shapes that no algorithm was found for; "algorithms": tried, over all shapes; built without cuDNN "pinned"
// is empty.
// "first" is the first case that differed: its seed, shape and element. Without libcublas "cublas_tflops" and "ratio"
// are null. Exit code 0: all bits agree, and pinned algorithms are right; 1: some do not; 77: there is no GPU, nothing
// was done.

#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "kernels/portable/gemm.h"
#include "tests/kernels/cuda/cases.h"
#include "tests/kernels/cuda/twin.h"
#include "tests/kernels/pinned/pinned_checks.h"

namespace {

using namespace estrain::kernels;

// JSON's form of text without control characters.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

struct Outcome {
  std::string json;
  bool agrees;
};

Outcome run_family(const test::Case& one, uint32_t seeds) {
  const auto begin = std::chrono::steady_clock::now();
  uint32_t differing = 0;
  std::string first;
  for (uint32_t seed = 0; seed < seeds; ++seed) {
    const std::string difference = one.run(seed);
    if (difference.empty()) continue;
    if (differing++ == 0) first = fmt::format("seed {}: {}", seed, difference);
  }
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  return {fmt::format(R"({{"family": "{}", "cases": {}, "differing": {}, "first": {}, "seconds": {:.3f}}})", one.family,
                      seeds, differing, quoted(first), time.count()),
          differing == 0};
}

// cuBLAS, if its library can be found: it is looked for when the program runs.
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

// The best of a few runs of ten calls each, in seconds a call.
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

std::string time_gemm(const Product& p, const Cublas& cublas) {
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
  if (cublas.sgemm != nullptr) {  // columns first: C^T = B^T A^T
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
  return fmt::format(
      R"({{"m": {}, "n": {}, "k": {}, "transposed": "{}{}", "tflops": {:.2f}, "cublas_tflops": {}, "ratio": {}}})", p.m,
      p.n, p.k, p.a_transposed ? 't' : 'n', p.b_transposed ? 't' : 'n', ours, theirs, ratio);
}

std::vector<test::PinnedOutcome> check_pinned([[maybe_unused]] uint32_t seeds) {
#ifdef ESTRAIN_HAS_PINNED
  return test::check_pinned(seeds);
#else
  return {};
#endif
}

std::string as_json(const test::PinnedOutcome& outcome) {
  return fmt::format(
      R"({{"operation": "{}", "cases": {}, "without": {}, "algorithms": {}, "failing": {}, "first": {}}})",
      outcome.operation, outcome.cases, outcome.without, outcome.algorithms, outcome.failing, quoted(outcome.first));
}

std::string joined(const std::vector<std::string>& items) {
  std::string out;
  for (const std::string& item : items) out += (out.empty() ? "\n  " : ",\n  ") + item;
  return out;
}

std::vector<std::string> time_products() {
  const Cublas cublas;
  std::vector<std::string> products;
  for (const int64_t n : {512, 1024, 2048, 4096}) products.push_back(time_gemm({n, n, n, false, false}, cublas));
  products.push_back(time_gemm({4096, 4096, 4096, false, true}, cublas));
  products.push_back(time_gemm({4096, 4096, 4096, true, false}, cublas));
  products.push_back(time_gemm({8192, 768, 3072, false, true}, cublas));
  products.push_back(time_gemm({768, 768, 16384, true, false}, cublas));
  return products;
}

}  // namespace

int main(int argc, char** argv) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    fmt::print(stderr, "gpu_check: there is no GPU here, or no driver for it; nothing was checked\n");
    return 77;
  }
  const auto seeds = static_cast<uint32_t>(argc > 1 ? std::atoi(argv[1]) : 144);
  std::FILE* to = argc > 2 ? std::fopen(argv[2], "w") : stdout;
  if (to == nullptr) {
    fmt::print(stderr, "gpu_check: {} cannot be written\n", argv[2]);
    return 1;
  }
  cudaDeviceProp device = {};
  cudaGetDeviceProperties(&device, 0);
  bool agrees = true;
  std::vector<std::string> families, products;
  for (const test::Case& one : test::all_cases()) {
    const Outcome outcome = run_family(one, seeds);
    agrees = agrees && outcome.agrees;
    families.push_back(outcome.json);
    fmt::print(stderr, "{}\n", outcome.json);
  }
  std::vector<std::string> pinned;
  for (const test::PinnedOutcome& outcome : check_pinned(seeds)) {
    agrees = agrees && outcome.failing == 0 && outcome.algorithms > 0;
    pinned.push_back(as_json(outcome));
    fmt::print(stderr, "{}\n", pinned.back());
  }
  if (argc <= 3) products = time_products();
  fmt::print(to, "{{\"device\": {}, \"compute_capability\": \"{}.{}\", \"seeds\": {},\n", quoted(device.name),
             device.major, device.minor, seeds);
  fmt::print(to, " \"families\": [{}],\n \"gemm\": [{}],\n \"pinned\": [{}]}}\n", joined(families), joined(products),
             joined(pinned));
  if (to != stdout) std::fclose(to);
  return agrees ? 0 : 1;
}
