#pragma once
// Defined by <family>_case.cpp for cases.cpp.

#include <cstdint>
#include <string>

namespace estrain::kernels::test {

std::string elementwise_case(uint32_t seed);
std::string random_case(uint32_t seed);
std::string permutation_case(uint32_t seed);
std::string reduction_case(uint32_t seed);
std::string softmax_case(uint32_t seed);
std::string cross_entropy_case(uint32_t seed);
std::string batch_norm_case(uint32_t seed);
std::string layer_norm_case(uint32_t seed);
std::string lstm_case(uint32_t seed);
std::string pooling_case(uint32_t seed);
std::string upsample_case(uint32_t seed);
std::string embedding_case(uint32_t seed);
std::string gemm_case(uint32_t seed);
std::string convolution_case(uint32_t seed);
std::string attention_case(uint32_t seed);
std::string optimizer_case(uint32_t seed);
std::string sum_case(uint32_t seed);

// "" if `differences` is empty, otherwise the shape and `differences`.
inline std::string report(const std::string& differences, const std::string& shape) {
  return differences.empty() ? "" : shape + ": " + differences;
}
template <typename... Numbers>
std::string shape_of(const char* what, Numbers... numbers) {
  std::string out = what;
  ((out += " " + std::to_string(numbers)), ...);
  return out;
}

}  // namespace estrain::kernels::test
