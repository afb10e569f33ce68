// Every kind of CPU gives the same bits: each runs the operators in a process of its own, as workers do.

#include <ATen/Parallel.h>
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdio>
#include <map>
#include <string>

#include "core/engine/device/cpu.h"
#include "core/engine/operators/portable.h"
#include "kernels/digest.h"
#include "tests/core/engine/operators/operator_cases.h"

namespace estrain::operators {
namespace {

const std::map<std::string, std::string> kEnvironments = {
    {"avx512", "ATEN_CPU_CAPABILITY=avx512 ONEDNN_MAX_CPU_ISA=AVX512_CORE"},
    {"avx2", "ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2"},
    {"sse", "ATEN_CPU_CAPABILITY=default ONEDNN_MAX_CPU_ISA=SSE41 MKL_CBWR=COMPATIBLE"},
};

uint64_t digest_of(const std::vector<Tensor>& results) {
  uint64_t sum = 0;
  for (const Tensor& result : results) {
    const Tensor values = result.contiguous();
    sum = sum * 31 + kernels::digest(values.const_data_ptr(), values.nbytes());
  }
  return sum;
}

// With inputs that no operator had to compute otherwise than exactly.
TEST_CASE("this kind's bits" * doctest::skip()) {  // run by the test below, in an environment of its own
  at::set_num_threads(1);
  device::CpuDevice cpu;
  const PortableOperators portable(cpu);
  size_t number = 0;
  for (const Case& each : differentiable_cases()) {
    std::vector<Tensor> inputs = draw(each);
    std::printf("case %zu %016lx\n", number++, digest_of(results(each, inputs, torch::kFloat)));
  }
}

std::map<size_t, std::string> bits_on(const std::string& environment) {
  const std::string command = "env " + environment + " /proc/" + std::to_string(::getpid()) +
                              "/exe --no-skip --test-case=\"this kind's bits\" 2>&1";
  std::map<size_t, std::string> found;
  FILE* pipe = ::popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  size_t number = 0;
  char digits[32], line[512];
  while (std::fgets(line, sizeof line, pipe) != nullptr) {
    if (std::sscanf(line, "case %zu %31s", &number, digits) == 2) found[number] = digits;
  }
  ::pclose(pipe);
  return found;
}

TEST_CASE("results and gradients have the same bits on every kind of CPU") {
  const std::vector<Case> cases = differentiable_cases();
  const auto expected = bits_on(kEnvironments.at("sse"));
  REQUIRE(expected.size() == cases.size());
  for (const auto& [kind, environment] : kEnvironments) {
    CAPTURE(kind);
    if (kind == "sse" || (kind == "avx512" && !__builtin_cpu_supports("avx512f"))) continue;
    if (!__builtin_cpu_supports("avx2")) continue;
    const auto found = bits_on(environment);
    REQUIRE(found.size() == cases.size());
    for (const auto& [number, digest] : found) {
      const std::string name = cases[number].name;
      CAPTURE(name);
      CHECK(digest == expected.at(number));
    }
  }
}

}  // namespace
}  // namespace estrain::operators
