// The CPU kinds are truly different devices: LibTorch gives different bits on them.

#include <ATen/Parallel.h>
#include <doctest/doctest.h>
#include <torch/types.h>
#include <unistd.h>

#include <cstdio>
#include <map>
#include <set>
#include <string>

#include "kernels/digest.h"

namespace estrain::device {
namespace {

using torch::Tensor;

// The variables that the launcher puts into a worker's environment (core/run/launch/preflight/devices.cpp, and its
// test).
const std::map<std::string, std::string> kEnvironments = {
    {"avx512", "ATEN_CPU_CAPABILITY=avx512 ONEDNN_MAX_CPU_ISA=AVX512_CORE"},
    {"avx2", "ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2"},
    {"sse", "ATEN_CPU_CAPABILITY=default ONEDNN_MAX_CPU_ISA=SSE41 MKL_CBWR=COMPATIBLE"},
};

uint64_t digest_of(const Tensor& x) {
  const Tensor values = x.contiguous();
  return kernels::digest(values.const_data_ptr(), values.nbytes());
}

// The same inputs on every kind, with one rounding each, for sums that round.
Tensor numbers(at::IntArrayRef sizes, int64_t seed) {
  const int64_t n = c10::multiply_integers(sizes);
  const Tensor whole = (torch::arange(n) * 7919 + seed * 104729).remainder(2003);
  return (whole.to(torch::kFloat) - 1001.0f).mul(1.0f / 1001).view(sizes);
}

TEST_CASE("this kind's digests" * doctest::skip()) {  // run by the test below, in an environment of its own
  at::set_num_threads(1);
  const Tensor a = numbers({65, 300}, 1), b = numbers({300, 70}, 2);
  const Tensor images = numbers({4, 16, 14, 14}, 3), filters = numbers({32, 16, 3, 3}, 4);
  std::printf("digest mm %016lx\n", digest_of(a.mm(b)));
  std::printf("digest conv %016lx\n", digest_of(at::conv2d(images, filters, {}, 1, 1)));
  std::printf("digest softmax %016lx\n", digest_of(a.softmax(1)));
}

std::map<std::string, std::string> digests_on(const std::string& environment) {
  const std::string command = "env " + environment + " " + std::string("/proc/") + std::to_string(::getpid()) +
                              "/exe --no-skip --test-case=\"this kind's digests\" 2>&1";
  std::map<std::string, std::string> found;
  FILE* pipe = ::popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  char name[32], digits[32], line[256];
  while (std::fgets(line, sizeof line, pipe) != nullptr) {
    if (std::sscanf(line, "digest %31s %31s", name, digits) == 2) found[name] = digits;
  }
  ::pclose(pipe);
  return found;
}

TEST_CASE("products, convolutions and softmax differ between kinds with LibTorch's kernels, and repeat on each") {
  std::map<std::string, std::set<std::string>> seen;
  size_t kinds = 0;
  for (const auto& [kind, environment] : kEnvironments) {
    CAPTURE(kind);
    if (kind == "avx512" && !__builtin_cpu_supports("avx512f")) continue;
    if (kind != "sse" && !__builtin_cpu_supports("avx2")) continue;
    kinds += 1;
    const auto digests = digests_on(environment);
    REQUIRE(digests.size() == 3);
    CHECK(digests_on(environment) == digests);
    for (const auto& [name, digest] : digests) seen[name].insert(digest);
  }
  if (kinds < 2) return;
  for (const std::string name : {"mm", "conv", "softmax"}) {
    CAPTURE(name);
    CHECK(seen[name].size() > 1);
  }
}

}  // namespace
}  // namespace estrain::device
