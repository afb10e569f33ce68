#pragma once
// For the simulated cuDNN and cuBLASLt: float32 and bfloat16 numbers in memory, sums of products by several algorithms,
// and the launch of an algorithm.

#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "tests/simulated_gpu/machine.h"

namespace estrain::simulated {

enum class Type { f32, bf16 };

inline float element(const void* values, Type type, int64_t i) {
  if (type == Type::f32) return static_cast<const float*>(values)[i];
  const uint32_t bits = uint32_t{static_cast<const uint16_t*>(values)[i]} << 16;
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// Finite values only.
inline void set_element(void* values, Type type, int64_t i, float value) {
  if (type == Type::f32) {
    static_cast<float*>(values)[i] = value;
    return;
  }
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  static_cast<uint16_t*>(values)[i] = static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

// Each has its own bits: in the order of the terms, backward, and in two halves.
constexpr int kAlgorithms = 3;
inline int64_t term_at(int algorithm, int64_t terms, int64_t i) { return algorithm == 1 ? terms - 1 - i : i; }
inline bool is_in_other_half(int algorithm, int64_t i) { return algorithm == 2 && i % 2 == 1; }
template <typename Term>
float sum(int algorithm, int64_t terms, Term term) {
  float total[2] = {};
  for (int64_t i = 0; i < terms; ++i) total[is_in_other_half(algorithm, i)] += term(term_at(algorithm, terms, i));
  return total[0] + total[1];
}

constexpr size_t kWorkspace = 1 << 10;  // bytes for each

// Writes junk into the workspace.
template <typename Body>
void launch(const std::string& kernel, cudaStream_t stream, void* workspace, Body body) {
  Machine& machine = Machine::of_process();
  machine.load(kernel);
  machine.put(machine.stream(stream), [workspace, body = std::move(body)] {
    std::memset(workspace, kJunk, kWorkspace);
    body();
  });
}

}  // namespace estrain::simulated
