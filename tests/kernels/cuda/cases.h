#pragma once
// Compares every family of kernels with the CPU's, on shapes and values drawn from a seed. A case returns "" if all
// bits agree, otherwise its shape and the first difference. The tests run the cases emulated, gpu_check on a GPU.

#include <cstdint>
#include <string>
#include <vector>

namespace estrain::kernels::test {

struct Case {
  const char* family;
  std::string (*run)(uint32_t seed);
};

std::vector<Case> all_cases();

}  // namespace estrain::kernels::test
