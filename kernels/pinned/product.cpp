#include "kernels/pinned/product.h"

#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>

#include "kernels/pinned/algorithm.h"
#include "kernels/pinned/failure.h"

namespace estrain::kernels::pinned {
namespace {

constexpr int kMostCandidates = 24;

// Reduction schemes with a fixed order and float32 sums.
constexpr uint32_t kSchemes = CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;

void require(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw Failure(std::string("cuBLASLt: ") + what + ": " + cublasLtGetStatusString(status));
}

template <auto Destroy>
struct Destroyer {
  template <typename Opaque>
  void operator()(Opaque* what) const {
    (void)Destroy(what);
  }
};
using Description = std::unique_ptr<cublasLtMatmulDescOpaque_t, Destroyer<cublasLtMatmulDescDestroy>>;
using Layout = std::unique_ptr<cublasLtMatrixLayoutOpaque_t, Destroyer<cublasLtMatrixLayoutDestroy>>;
using Preference = std::unique_ptr<cublasLtMatmulPreferenceOpaque_t, Destroyer<cublasLtMatmulPreferenceDestroy>>;

cudaDataType_t type_of(Element element) { return element == Element::f32 ? CUDA_R_32F : CUDA_R_16BF; }

cublasComputeType_t compute_type(const ProductProblem& product) {
  const bool tf32 = product.element == Element::f32 && product.math == Math::tf32;
  return tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

template <typename Value>
void set(const Description& description, cublasLtMatmulDescAttributes_t attribute, Value value) {
  require(cublasLtMatmulDescSetAttribute(description.get(), attribute, &value, sizeof value), "a product's attribute");
}

Description describe(const ProductProblem& product) {
  cublasLtMatmulDesc_t made = nullptr;
  require(cublasLtMatmulDescCreate(&made, compute_type(product), CUDA_R_32F), "a product");
  Description description(made);
  // cuBLASLt's matrices are column-major, so cuBLASLt computes the transpose, B' A'.
  set(description, CUBLASLT_MATMUL_DESC_TRANSA, product.b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(description, CUBLASLT_MATMUL_DESC_TRANSB, product.a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (product.addend == ProductProblem::Addend::bias) {
    set(description, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(description, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of(product.element));
    // Until a run sets the pointer, only the pointer's alignment matters.
    set(description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<uintptr_t>(product.alignment));
  }
  return description;
}

// `rows` and `columns` as in memory, row-major.
Layout lay_out(const ProductProblem& product, const ProductProblem::MatrixOperand& operand, int64_t rows,
               int64_t columns) {
  if (operand.transposed) std::swap(rows, columns);
  cublasLtMatrixLayout_t made = nullptr;
  require(cublasLtMatrixLayoutCreate(&made, type_of(product.element), static_cast<uint64_t>(columns),
                                     static_cast<uint64_t>(rows), operand.leading),
          "a matrix");
  Layout layout(made);
  const auto count = static_cast<int32_t>(product.batch);
  require(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count),
          "the number of matrices");
  require(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &operand.stride,
                                           sizeof operand.stride),
          "the distance of matrices");
  return layout;
}

// cuBLASLt's description of a product.
struct Problem {
  Description description;
  Layout a, b, c, d;  // a is the product's b, and vice versa

  explicit Problem(const ProductProblem& p)
      : description(describe(p)),
        a(lay_out(p, p.b, p.k, p.n)),
        b(lay_out(p, p.a, p.m, p.k)),
        c(lay_out(p, p.addend == ProductProblem::Addend::matrix ? p.c : p.d, p.m, p.n)),
        d(lay_out(p, p.d, p.m, p.n)) {}
};

Preference preference(const ProductProblem& product) {
  cublasLtMatmulPreference_t made = nullptr;
  require(cublasLtMatmulPreferenceCreate(&made), "a preference");
  Preference wanted(made);
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    require(cublasLtMatmulPreferenceSetAttribute(made, attribute, &value, sizeof value), "a preference's attribute");
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{kMostWorkspace});
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, kSchemes);
  for (const auto attribute : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                               CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    prefer(attribute, static_cast<uint32_t>(product.alignment));
  return wanted;
}

// The place of each setting in an algorithm's configuration; the sizes are cublasLt.h's.
struct Setting {
  cublasLtMatmulAlgoConfigAttributes_t attribute;
  int64_t ProductAlgorithm::*field;
  size_t bytes;
};
constexpr std::array<Setting, 8> kSettings = {{
    {CUBLASLT_ALGO_CONFIG_TILE_ID, &ProductAlgorithm::tile, 4},
    {CUBLASLT_ALGO_CONFIG_STAGES_ID, &ProductAlgorithm::stages, 4},
    {CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &ProductAlgorithm::split_k, 4},
    {CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &ProductAlgorithm::reduction, 4},
    {CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, &ProductAlgorithm::swizzle, 4},
    {CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, &ProductAlgorithm::custom, 4},
    {CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, &ProductAlgorithm::inner, 2},
    {CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, &ProductAlgorithm::cluster, 2},
}};

std::optional<int64_t> value_of(const cublasLtMatmulAlgo_t& algo, cublasLtMatmulAlgoConfigAttributes_t attribute,
                                size_t bytes) {
  uint32_t value = 0;  // little-endian: a smaller type fills the first bytes
  size_t written = 0;
  if (cublasLtMatmulAlgoConfigGetAttribute(&algo, attribute, &value, bytes, &written) != CUBLAS_STATUS_SUCCESS)
    return std::nullopt;
  return value;
}

// Returns nothing if the library does not report all settings.
std::optional<ProductAlgorithm> configuration_of(const cublasLtMatmulAlgo_t& algo) {
  const auto id = value_of(algo, CUBLASLT_ALGO_CONFIG_ID, 4);
  if (!id) return std::nullopt;
  ProductAlgorithm algorithm = {.id = *id};
  for (const Setting& setting : kSettings) {
    const auto value = value_of(algo, setting.attribute, setting.bytes);
    if (!value) return std::nullopt;
    algorithm.*setting.field = *value;
  }
  return algorithm;
}

// Sets `algo` to the algorithm. Returns the reason if the library lacks the algorithm; nothing if `algo` is set.
std::optional<std::string> configure(cublasLtHandle_t handle, const ProductProblem& product,
                                     const ProductAlgorithm& algorithm, cublasLtMatmulAlgo_t* algo) {
  const cudaDataType_t type = type_of(product.element);
  if (cublasLtMatmulAlgoInit(handle, compute_type(product), CUDA_R_32F, type, type, type, type,
                             static_cast<int>(algorithm.id), algo) != CUBLAS_STATUS_SUCCESS)
    return "cuBLASLt has no algorithm of this id";
  for (const Setting& setting : kSettings) {
    const int64_t wanted = algorithm.*setting.field;
    const int64_t most =
        setting.bytes == 2 ? std::numeric_limits<uint16_t>::max() : std::numeric_limits<uint32_t>::max();
    if (wanted < 0 || wanted > most) return "one of its numbers is out of range";
    if (value_of(*algo, setting.attribute, setting.bytes) == wanted) continue;
    const auto value = static_cast<uint32_t>(wanted);
    if (cublasLtMatmulAlgoConfigSetAttribute(algo, setting.attribute, &value, setting.bytes) != CUBLAS_STATUS_SUCCESS)
      return "cuBLASLt does not accept its configuration";
  }
  return std::nullopt;
}

constexpr size_t kBytesOfWords = sizeof(ProductAlgorithm::words);
static_assert(sizeof(cublasLtMatmulAlgo_t) == kBytesOfWords);

// Returns whether the configuration determines the algorithm. For newer algorithms the library stores more fields than
// it reports.
bool is_whole(cublasLtHandle_t handle, const ProductProblem& product, const ProductAlgorithm& algorithm,
              const cublasLtMatmulAlgo_t& algo) {
  cublasLtMatmulAlgo_t made = {};
  return !configure(handle, product, algorithm, &made) && std::memcmp(&made, &algo, kBytesOfWords) == 0;
}

// Like configure(), for an algorithm given by its words.
std::optional<std::string> restore(ProductAlgorithm algorithm, cublasLtMatmulAlgo_t* algo) {
  if (algorithm.version != cublasLtGetVersion()) return "it is from another version of cuBLASLt";
  std::memcpy(algo, algorithm.words.data(), kBytesOfWords);
  algorithm.words = {};
  algorithm.version = 0;
  if (configuration_of(*algo) != algorithm) return "its words belong to another configuration";
  return std::nullopt;
}

// Throws Failure if the library does not report the capability.
template <typename Value>
Value capability(const cublasLtMatmulAlgo_t& algo, cublasLtMatmulAlgoCapAttributes_t attribute) {
  Value value{};
  size_t written = 0;
  require(cublasLtMatmulAlgoCapGetAttribute(&algo, attribute, &value, sizeof value, &written),
          "what an algorithm can do");
  return value;
}

// Returns how an algorithm's arithmetic differs from the product's; nothing without a difference.
std::optional<std::string> wrong_arithmetic(const ProductProblem& product, const ProductAlgorithm& algorithm,
                                            const cublasLtMatmulAlgo_t& algo) {
  if ((static_cast<uint64_t>(algorithm.reduction) & ~uint64_t{kSchemes}) != 0)
    return "it adds partial sums in place, or in less than float32";
  // Seen on an H200, cuBLASLt 13.1: the partial sums' total is rounded to bf16, the bias is added, and rounded again.
  const bool is_split = algorithm.split_k > 1 || algorithm.reduction != CUBLASLT_REDUCTION_SCHEME_NONE;
  if (is_split && product.element == Element::bf16 && product.addend == ProductProblem::Addend::bias)
    return "it rounds to bf16 before it adds the bias";
  const auto numerics = capability<uint64_t>(algo, CUBLASLT_ALGO_CAP_NUMERICAL_IMPL_FLAGS);
  if ((numerics & CUBLASLT_NUMERICAL_IMPL_FLAGS_ACCUMULATOR_16F) != 0) return "it sums in less than float32";
  const bool exact = product.element == Element::f32 && product.math == Math::exact;
  if (exact && (numerics & CUBLASLT_NUMERICAL_IMPL_FLAGS_TENSOR_OP_MASK) != 0)
    return "it computes on tensor cores, in less than float32";
  for (const auto attribute : {CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_A_BYTES, CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_B_BYTES,
                               CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_C_BYTES, CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_D_BYTES}) {
    if (capability<uint32_t>(algo, attribute) > static_cast<uint64_t>(product.alignment))
      return "it needs operands with a larger alignment";
  }
  return std::nullopt;
}

class CublasLtPlan : public ProductPlan {
 public:
  CublasLtPlan(cublasLtHandle_t handle, const ProductProblem& product)
      : handle_(handle), problem_(product), has_bias_(product.addend == ProductProblem::Addend::bias) {}

  // Takes the algorithm. Returns the reason if the algorithm is unusable; otherwise nothing.
  std::optional<std::string> take(const ProductProblem& product, const ProductAlgorithm& algorithm) {
    auto refusal = algorithm.has_words() ? restore(algorithm, &algo_) : configure(handle_, product, algorithm, &algo_);
    if (refusal) return refusal;
    if (auto reason = wrong_arithmetic(product, algorithm, algo_)) return reason;
    cublasLtMatmulHeuristicResult_t checked = {};
    const cublasStatus_t status =
        cublasLtMatmulAlgoCheck(handle_, problem_.description.get(), problem_.a.get(), problem_.b.get(),
                                problem_.c.get(), problem_.d.get(), &algo_, &checked);
    if (status != CUBLAS_STATUS_SUCCESS) return "cuBLASLt does not run it for this shape on this device";
    if (checked.workspaceSize > kMostWorkspace) return "it needs too large a workspace";
    workspace_ = checked.workspaceSize;
    return std::nullopt;
  }

  size_t workspace() const override { return workspace_; }

  void run(const ProductOperands& operands, void* workspace, void* stream) override {
    if (has_bias_) set(problem_.description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, operands.c);
    const float beta = has_bias_ ? 0 : operands.beta;
    const void* c = has_bias_ || operands.c == nullptr ? operands.d : operands.c;
    require(cublasLtMatmul(handle_, problem_.description.get(), &operands.alpha, operands.b, problem_.a.get(),
                           operands.a, problem_.b.get(), &beta, c, problem_.c.get(), operands.d, problem_.d.get(),
                           &algo_, workspace, workspace_, static_cast<cudaStream_t>(stream)),
            "a product");
  }

 private:
  cublasLtHandle_t handle_;
  Problem problem_;
  const bool has_bias_;
  cublasLtMatmulAlgo_t algo_ = {};
  size_t workspace_ = 0;
};

}  // namespace

struct Products::Handle {
  cublasLtHandle_t lt = nullptr;
  Handle() { require(cublasLtCreate(&lt), "its start"); }
  ~Handle() { (void)cublasLtDestroy(lt); }
  Handle(const Handle&) = delete;
};

Products::Products() : handle_(std::make_unique<Handle>()) {}
Products::~Products() = default;

std::string Products::version() {
  const size_t version = cublasLtGetVersion();
  return "cuBLASLt " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

std::vector<std::string> Products::candidates(const ProductProblem& product, const std::function<void()>& between,
                                              const std::function<void(const std::string&)>& left_out) const {
  const Problem problem(product);
  std::array<cublasLtMatmulHeuristicResult_t, kMostCandidates> results = {};
  int found = 0;
  // "Not supported" means that the library has no algorithm.
  if (cublasLtMatmulAlgoGetHeuristic(handle_->lt, problem.description.get(), problem.a.get(), problem.b.get(),
                                     problem.c.get(), problem.d.get(), preference(product).get(), kMostCandidates,
                                     results.data(), &found) != CUBLAS_STATUS_SUCCESS)
    return {};
  std::vector<ProductAlgorithm> algorithms;
  for (int i = 0; i < found; ++i) {
    const auto& result = results[static_cast<size_t>(i)];
    if (result.state != CUBLAS_STATUS_SUCCESS) continue;
    if (auto algorithm = configuration_of(result.algo)) {
      if (!is_whole(handle_->lt, product, *algorithm, result.algo)) {
        algorithm->version = cublasLtGetVersion();
        std::memcpy(algorithm->words.data(), &result.algo, kBytesOfWords);
      }
      algorithms.push_back(*algorithm);
    } else {
      left_out("cuBLASLt does not report its configuration");
    }
  }
  std::ranges::sort(algorithms);
  algorithms.erase(std::unique(algorithms.begin(), algorithms.end()), algorithms.end());
  std::vector<std::string> texts;
  for (const ProductAlgorithm& algorithm : algorithms) {
    between();
    if (const BuiltProduct built = build(product, algorithm.text()); built.plan) {
      texts.push_back(algorithm.text());
    } else {
      left_out(built.refusal);
    }
  }
  return texts;
}

BuiltProduct Products::build(const ProductProblem& product, const std::string& text) const {
  const auto algorithm = ProductAlgorithm::from_text(text);
  if (!algorithm) return {nullptr, "it is not an algorithm of cuBLASLt's"};
  try {
    auto plan = std::make_unique<CublasLtPlan>(handle_->lt, product);
    if (auto reason = plan->take(product, *algorithm)) return {nullptr, *reason};
    return {std::move(plan), ""};
  } catch (const Failure& failure) {
    return {nullptr, failure.what()};
  }
}

}  // namespace estrain::kernels::pinned
