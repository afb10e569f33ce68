// cuBLASLt (libcublasLt.so.13) on a simulated GPU: products by a few algorithms with their own bits. One splits k; one
// computes on tensor cores and reports it; one reports nothing. Algorithms for float32 are more than their
// configuration: those built by AlgoInit from it do not run.

#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "tests/simulated_gpu/algorithms.h"
#include "tests/simulated_gpu/machine.h"

// Opaque to others.
struct cublasLtContext {};

namespace {

using namespace estrain::simulated;

constexpr int kSplit = 2;  // k in two halves; in bf16 it rounds their sum before it adds a bias
constexpr int kOnTensorCores = kAlgorithms;
constexpr int kSaysNothing = kAlgorithms + 1;
constexpr int kAll = kAlgorithms + 2;

// Column-major; `ld` and `stride` count elements.
struct Layout {
  Type type;
  uint64_t rows, columns;
  int64_t ld;
  int32_t batch;
  int64_t stride;

  int64_t place(int64_t matrix, int64_t row, int64_t column) const { return matrix * stride + column * ld + row; }
};

struct Description {
  int32_t a_transposed, b_transposed, epilogue;
  const void* bias;
};

struct Algorithm {
  int32_t id;
  std::array<uint32_t, 8> settings;
  uint32_t untold;  // must equal untold_of()
};

uint32_t untold_of(const Layout& of, int id) { return of.type == Type::f32 ? 100 + static_cast<uint32_t>(id) : 0; }

template <typename Inner, typename Opaque>
Inner& inside(Opaque* opaque) {
  static_assert(sizeof(Inner) <= sizeof(Opaque));
  return *reinterpret_cast<Inner*>(opaque);
}
template <typename Inner, typename Opaque>
const Inner& inside(const Opaque* opaque) {
  return *reinterpret_cast<const Inner*>(opaque);
}

template <typename Inner, typename Opaque>
cublasStatus_t make(Opaque** made, const Inner& value) {
  *made = new Opaque();
  inside<Inner>(*made) = value;
  return CUBLAS_STATUS_SUCCESS;
}

// The algorithm's setting for this attribute.
uint32_t& setting(Algorithm& algorithm, cublasLtMatmulAlgoConfigAttributes_t attribute) {
  static const std::map<int, size_t> places = {
      {CUBLASLT_ALGO_CONFIG_TILE_ID, 0},        {CUBLASLT_ALGO_CONFIG_STAGES_ID, 1},
      {CUBLASLT_ALGO_CONFIG_SPLITK_NUM, 2},     {CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, 3},
      {CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, 4},  {CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, 5},
      {CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, 6}, {CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, 7}};
  return algorithm.settings[places.at(attribute)];
}

float rounded(float value, Type type) {
  float memory = 0;
  set_element(&memory, type, 0, value);
  return element(&memory, type, 0);
}

// A new algorithm of this id.
Algorithm algorithm_of(int id, uint32_t untold) {
  Algorithm algorithm = {id, {}, untold};
  setting(algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM) = id == kSplit ? 2 : 1;
  if (id == kSplit) setting(algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME) = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  return algorithm;
}

struct Product {
  Description description;
  int algorithm;
  float alpha, beta;
  const void *a, *b, *c;
  void* d;
  Layout a_layout, b_layout, c_layout, d_layout;

  // Column by column: the sums of a column's elements, each in the order of `algorithm` (sum() in algorithms.h), run
  // side by side in vectors.
  void compute() const {
    const auto rows = static_cast<int64_t>(d_layout.rows), columns = static_cast<int64_t>(d_layout.columns);
    const auto depth = static_cast<int64_t>(description.a_transposed ? a_layout.rows : a_layout.columns);
    std::vector<float> left(depth * rows), right(depth), sums(rows), other_sums(rows);
    for (int64_t matrix = 0; matrix < d_layout.batch; ++matrix) {
      for (int64_t k = 0; k < depth; ++k) {
        for (int64_t i = 0; i < rows; ++i) left[k * rows + i] = a_at(matrix, i, k);
      }
      for (int64_t j = 0; j < columns; ++j) {
        for (int64_t k = 0; k < depth; ++k) right[k] = b_at(matrix, k, j);
        std::ranges::fill(sums, 0.0F);
        std::ranges::fill(other_sums, 0.0F);
        for (int64_t term = 0; term < depth; ++term) {
          const int64_t k = term_at(algorithm, depth, term);
          add_products(is_in_other_half(algorithm, term) ? other_sums : sums, &left[k * rows], right[k]);
        }
        for (int64_t i = 0; i < rows; ++i) finish(matrix, i, j, alpha * (sums[i] + other_sums[i]));
      }
    }
  }

 private:
  float a_at(int64_t matrix, int64_t i, int64_t k) const {
    const int64_t place = description.a_transposed ? a_layout.place(matrix, k, i) : a_layout.place(matrix, i, k);
    return element(a, a_layout.type, place);
  }
  float b_at(int64_t matrix, int64_t k, int64_t j) const {
    const int64_t place = description.b_transposed ? b_layout.place(matrix, j, k) : b_layout.place(matrix, k, j);
    return element(b, b_layout.type, place);
  }

  static void add_products(std::vector<float>& sums, const float* factors, float factor) {
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += factors[i] * factor;
  }

  // `value`: an element of the product, without what is added to the product.
  void finish(int64_t matrix, int64_t i, int64_t j, float value) const {
    if (beta != 0) value += beta * element(c, c_layout.type, c_layout.place(matrix, i, j));
    if (description.epilogue == CUBLASLT_EPILOGUE_BIAS) {
      if (algorithm == kSplit) value = rounded(value, d_layout.type);
      value += element(description.bias, d_layout.type, i);
    }
    set_element(d, d_layout.type, d_layout.place(matrix, i, j), value);
  }
};

}  // namespace

extern "C" {

size_t cublasLtGetVersion() { return CUBLAS_VERSION; }
const char* cublasLtGetStatusString(cublasStatus_t) { return "an error of the simulated cuBLASLt"; }
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new cublasLtContext();
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* made, cublasComputeType_t, cudaDataType_t) {
  return make(made, Description{CUBLAS_OP_N, CUBLAS_OP_N, CUBLASLT_EPILOGUE_DEFAULT, nullptr});
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  delete description;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t opaque, cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
  Description& description = inside<Description>(opaque);
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      std::memcpy(&description.a_transposed, value, bytes);
      break;
    case CUBLASLT_MATMUL_DESC_TRANSB:
      std::memcpy(&description.b_transposed, value, bytes);
      break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      std::memcpy(&description.epilogue, value, bytes);
      break;
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      std::memcpy(&description.bias, value, bytes);
      break;
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      break;
    default:
      fail("attribute " + std::to_string(attribute) + " of a product");
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* made, cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t ld) {
  return make(made, Layout{type == CUDA_R_32F ? Type::f32 : Type::bf16, rows, columns, ld, 1, 0});
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t opaque,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void* value,
                                                size_t bytes) {
  Layout& layout = inside<Layout>(opaque);
  if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) std::memcpy(&layout.batch, value, bytes);
  if (attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET) std::memcpy(&layout.stride, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* made) { return make(made, 0); }
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t,
                                                    const void*, size_t) {
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoInit(cublasLtHandle_t, cublasComputeType_t, cudaDataType_t, cudaDataType_t,
                                      cudaDataType_t, cudaDataType_t, cudaDataType_t, int id,
                                      cublasLtMatmulAlgo_t* algorithm) {
  if (id < 0 || id >= kAll) return CUBLAS_STATUS_INVALID_VALUE;
  inside<Algorithm>(algorithm) = algorithm_of(id, 0);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t, int most,
                                              cublasLtMatmulHeuristicResult_t* results, int* found) {
  *found = std::min(most, kAll);
  for (int i = 0; i < *found; ++i) {
    results[i] = {};
    inside<Algorithm>(&results[i].algo) = algorithm_of(i, untold_of(inside<Layout>(a), i));
    results[i].state = CUBLAS_STATUS_SUCCESS;
  }
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute, void* value,
                                                    size_t bytes, size_t* written) {
  Algorithm inner = inside<Algorithm>(algorithm);
  const uint32_t found =
      attribute == CUBLASLT_ALGO_CONFIG_ID ? static_cast<uint32_t>(inner.id) : setting(inner, attribute);
  std::memcpy(value, &found, bytes);
  *written = bytes;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoConfigSetAttribute(cublasLtMatmulAlgo_t* algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute, const void* value,
                                                    size_t bytes) {
  std::memcpy(&setting(inside<Algorithm>(algorithm), attribute), value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoCapGetAttribute(const cublasLtMatmulAlgo_t* algorithm,
                                                 cublasLtMatmulAlgoCapAttributes_t attribute, void* value, size_t bytes,
                                                 size_t* written) {
  if (inside<Algorithm>(algorithm).id == kSaysNothing) {
    last_error() = cudaErrorInvalidValue;
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  uint64_t capability = 1;  // an alignment of any
  if (attribute == CUBLASLT_ALGO_CAP_NUMERICAL_IMPL_FLAGS) {
    capability = inside<Algorithm>(algorithm).id == kOnTensorCores ? CUBLASLT_NUMERICAL_IMPL_FLAGS_TENSOR_OP_MASK
                                                                   : CUBLASLT_NUMERICAL_IMPL_FLAGS_FMA;
  }
  std::memcpy(value, &capability, bytes);
  *written = bytes;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t a,
                                       cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                       const cublasLtMatmulAlgo_t* opaque, cublasLtMatmulHeuristicResult_t* result) {
  const Algorithm& algorithm = inside<Algorithm>(opaque);
  if (algorithm.untold != untold_of(inside<Layout>(a), algorithm.id)) return CUBLAS_STATUS_NOT_SUPPORTED;
  result->workspaceSize = kWorkspace;
  result->state = CUBLAS_STATUS_SUCCESS;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t description, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              size_t workspace_bytes, cudaStream_t stream) {
  if (workspace_bytes < kWorkspace) return CUBLAS_STATUS_INVALID_VALUE;
  const Product product = {inside<Description>(description),
                           inside<Algorithm>(algorithm).id,
                           *static_cast<const float*>(alpha),
                           *static_cast<const float*>(beta),
                           a,
                           b,
                           c,
                           d,
                           inside<Layout>(a_layout),
                           inside<Layout>(b_layout),
                           inside<Layout>(c_layout),
                           inside<Layout>(d_layout)};
  launch("product " + std::to_string(product.algorithm), stream, workspace, [product] { product.compute(); });
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
