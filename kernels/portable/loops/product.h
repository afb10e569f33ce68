#pragma once
// A matrix product on one thread, used by gemm and attention. The arithmetic is portable/gemm.h's.

#include <stdint.h>

namespace estrain::kernels::ESTRAIN_ISA {

struct Matrix {
  const float* data = nullptr;
  int64_t row_stride = 0, column_stride = 0;
};

struct Product {
  int64_t m = 0, n = 0, k = 0;
  Matrix a, b;  // m x k, k x n
  float* c = nullptr;
  int64_t c_row_stride = 0;
  bool accumulate = false;  // the total starts from C, and all of k is further blocks
  float alpha = 1, beta = 0;
  Matrix d;  // m x n, or null; must not overlap C if k > 256 or with `accumulate`
};

void multiply(const Product& product);

}  // namespace estrain::kernels::ESTRAIN_ISA
