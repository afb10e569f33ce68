// cuDNN (libcudnn.so.9) on a simulated GPU: convolutions through its backend's descriptors, by a few engines with their
// own bits. One more is not deterministic and reports it; another reports nothing. Batch norm, and the convolutions of
// LibTorch's own operators, compute nothing (operators.cpp does).

#include <cudnn.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <set>

#include "tests/simulated_gpu/algorithms.h"
#include "tests/simulated_gpu/machine.h"

namespace {

using namespace estrain::simulated;

// Copies its components, as cuDNN's descriptors do.
struct Node {
  cudnnBackendDescriptorType_t type;
  std::map<int, std::vector<std::byte>> values;
  std::map<int, std::vector<std::shared_ptr<Node>>> nodes;

  template <typename T>
  std::vector<T> all(int name) const {
    const auto found = values.find(name);
    if (found == values.end()) fail("a descriptor lacks attribute " + std::to_string(name));
    std::vector<T> all(found->second.size() / sizeof(T));
    std::memcpy(all.data(), found->second.data(), found->second.size());
    return all;
  }
  template <typename T>
  T one(int name) const {
    return all<T>(name).at(0);
  }
  const Node& node(int name) const { return *nodes.at(name).at(0); }
};
using Descriptor = std::shared_ptr<Node>;
Descriptor& of(cudnnBackendDescriptor_t descriptor) { return *static_cast<Descriptor*>(descriptor); }

struct Handle {
  cudaStream_t stream = nullptr;
};

constexpr int64_t kNotDeterministic = kAlgorithms;
constexpr int64_t kSaysNothing = kAlgorithms + 1;
constexpr int64_t kEngines = kAlgorithms + 2;

// The positions of attributes in the operation of a pass.
struct Names {
  int geometry, x, w, y;
};
Names names_of(cudnnBackendDescriptorType_t operation) {
  switch (operation) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      return {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y};
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      return {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY};
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
      return {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY};
    default:
      fail("an operation that is no convolution");
  }
}

struct Tensor {
  std::vector<int64_t> sizes;
  Type type;
  void* memory;

  int64_t plane() const {
    return std::accumulate(sizes.begin() + 2, sizes.end(), int64_t{1}, std::multiplies<int64_t>());
  }
  float at(int64_t a, int64_t b, int64_t place) const { return element(memory, type, index(a, b, place)); }
  void set(int64_t a, int64_t b, int64_t place, float value) const {
    set_element(memory, type, index(a, b, place), value);
  }

 private:
  int64_t index(int64_t a, int64_t b, int64_t place) const { return (a * sizes[1] + b) * plane() + place; }
};

// Positions in the planes of input, filter and output that belong to one product.
struct Meeting {
  int64_t x, w, y;
};

struct Convolution {
  cudnnBackendDescriptorType_t pass;
  int algorithm;
  std::vector<int64_t> padding, stride, dilation;
  Tensor x, w, y;

  int64_t inputs() const { return w.sizes[1]; }  // per group
  int64_t outputs() const { return y.sizes[1] * inputs() / x.sizes[1]; }
  // The position in the input of an output's place and a tap; -1 if outside.
  int64_t input(int64_t place, int64_t tap) const {
    int64_t position = 0, step = 1;
    for (size_t axis = stride.size(); axis-- > 0;) {
      const int64_t i = place % y.sizes[2 + axis], k = tap % w.sizes[2 + axis];
      const int64_t at = i * stride[axis] - padding[axis] + k * dilation[axis];
      if (at < 0 || at >= x.sizes[2 + axis]) return -1;
      position += at * step, step *= x.sizes[2 + axis];
      place /= y.sizes[2 + axis], tap /= w.sizes[2 + axis];
    }
    return position;
  }

  std::vector<Meeting> meetings() const;
  template <typename Term>
  void sum_up(const Tensor& result, int64_t Meeting::*place, int64_t count, Term term) const;
  void compute() const;
};

std::vector<Meeting> Convolution::meetings() const {
  std::vector<Meeting> all;
  for (int64_t place = 0; place < y.plane(); ++place) {
    for (int64_t tap = 0; tap < w.plane(); ++tap) {
      const int64_t position = input(place, tap);
      if (position >= 0) all.push_back({position, tap, place});
    }
  }
  return all;
}

// Computes each number of the result from `count` planes, with the terms (result's plane [a][b], plane i, positions).
template <typename Term>
void Convolution::sum_up(const Tensor& result, int64_t Meeting::*place, int64_t count, Term term) const {
  std::vector<std::vector<Meeting>> of_place(static_cast<size_t>(result.plane()));
  for (const Meeting& meeting : meetings()) of_place[static_cast<size_t>(meeting.*place)].push_back(meeting);
  for (int64_t a = 0; a < result.sizes[0]; ++a) {
    for (int64_t b = 0; b < result.sizes[1]; ++b) {
      for (int64_t at = 0; at < result.plane(); ++at) {
        const std::vector<Meeting>& here = of_place[static_cast<size_t>(at)];
        const auto each = static_cast<int64_t>(here.size());
        result.set(a, b, at, sum(algorithm, count * each, [&](int64_t i) {
                     return term(a, b, i / each, here[static_cast<size_t>(i % each)]);
                   }));
      }
    }
  }
}

void Convolution::compute() const {
  switch (pass) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      return sum_up(y, &Meeting::y, inputs(), [&](int64_t n, int64_t o, int64_t i, const Meeting& at) {
        return x.at(n, o / outputs() * inputs() + i, at.x) * w.at(o, i, at.w);
      });
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      return sum_up(x, &Meeting::x, outputs(), [&](int64_t n, int64_t c, int64_t i, const Meeting& at) {
        const int64_t o = c / inputs() * outputs() + i;
        return y.at(n, o, at.y) * w.at(o, c % inputs(), at.w);
      });
    default:
      return sum_up(w, &Meeting::w, x.sizes[0], [&](int64_t o, int64_t c, int64_t n, const Meeting& at) {
        return x.at(n, o / outputs() * inputs() + c, at.x) * y.at(n, o, at.y);
      });
  }
}

Convolution convolution_of(const Node& plan, const Node& pack) {
  const Node& engine = plan.node(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG).node(CUDNN_ATTR_ENGINECFG_ENGINE);
  const Node& operation = engine.node(CUDNN_ATTR_ENGINE_OPERATION_GRAPH).node(CUDNN_ATTR_OPERATIONGRAPH_OPS);
  const Names names = names_of(operation.type);
  const Node& geometry = operation.node(names.geometry);
  const auto ids = pack.all<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto places = pack.all<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  const auto tensor = [&](int name) {
    const Node& node = operation.node(name);
    const auto id = std::ranges::find(ids, node.one<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID));
    void* const memory = places.at(static_cast<size_t>(id - ids.begin()));
    if (reinterpret_cast<uintptr_t>(memory) %
            static_cast<uintptr_t>(node.one<int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT)) !=
        0)
      fail("an operand of a convolution is not aligned as it was said to be");
    return Tensor{node.all<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS),
                  node.one<int>(CUDNN_ATTR_TENSOR_DATA_TYPE) == CUDNN_DATA_FLOAT ? Type::f32 : Type::bf16, memory};
  };
  return {operation.type,
          static_cast<int>(engine.one<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX)),
          geometry.all<int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS),
          geometry.all<int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES),
          geometry.all<int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS),
          tensor(names.x),
          tensor(names.w),
          tensor(names.y)};
}

cudnnStatus_t batch_norm() {
  if (!ComputedElsewhere::is_so()) fail("nobody computes what cuDNN's batch norm should");
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t say(size_t* size) {
  *size = kWorkspace;
  return CUDNN_STATUS_SUCCESS;
}

template <typename T>
cudnnStatus_t answer(const std::vector<T>& values, int64_t most, int64_t* count, void* into) {
  if (count != nullptr) *count = static_cast<int64_t>(values.size());
  if (into != nullptr) std::memcpy(into, values.data(), std::min(static_cast<size_t>(most), values.size()) * sizeof(T));
  return CUDNN_STATUS_SUCCESS;
}

size_t size_of(cudnnBackendAttributeType_t type) {
  static const std::set<int> eight_bytes = {CUDNN_TYPE_HANDLE, CUDNN_TYPE_INT64, CUDNN_TYPE_DOUBLE,
                                            CUDNN_TYPE_VOID_PTR};
  return type == CUDNN_TYPE_CHAR ? 1 : eight_bytes.contains(type) ? 8 : 4;
}

// Engine `index` for the graph of the heuristics or engine.
Descriptor configuration_of(const Descriptor& graph, int64_t index) {
  auto engine = std::make_shared<Node>(Node{CUDNN_BACKEND_ENGINE_DESCRIPTOR, {}, {}});
  engine->nodes[CUDNN_ATTR_ENGINE_OPERATION_GRAPH] = {graph};
  auto& bytes = engine->values[CUDNN_ATTR_ENGINE_GLOBAL_INDEX];
  bytes.resize(sizeof index);
  std::memcpy(bytes.data(), &index, sizeof index);
  auto configuration = std::make_shared<Node>(Node{CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, {}, {}});
  configuration->nodes[CUDNN_ATTR_ENGINECFG_ENGINE] = {engine};
  return configuration;
}

}  // namespace

extern "C" {

size_t cudnnGetVersion() { return CUDNN_VERSION; }
const char* cudnnGetErrorString(cudnnStatus_t) { return "an error of the simulated cuDNN"; }
void cudnnGetLastErrorString(char* words, size_t size) {
  std::snprintf(words, size, "an error of the simulated cuDNN");
}
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  *handle = reinterpret_cast<cudnnHandle_t>(new Handle());
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete reinterpret_cast<Handle*>(handle);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  reinterpret_cast<Handle*>(handle)->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* descriptor) {
  *descriptor = new Descriptor(std::make_shared<Node>(Node{type, {}, {}}));
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  delete &of(descriptor);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  const Node& node = *of(descriptor);
  const bool is_unknown =
      node.type == CUDNN_BACKEND_ENGINE_DESCRIPTOR && node.one<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX) >= kEngines;
  return is_unknown ? CUDNN_STATUS_NOT_SUPPORTED : CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count, const void* values) {
  Node& node = *of(descriptor);
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    for (int64_t i = 0; i < count; ++i)
      node.nodes[name].push_back(of(static_cast<const cudnnBackendDescriptor_t*>(values)[i]));
    return CUDNN_STATUS_SUCCESS;
  }
  const auto* const bytes = static_cast<const std::byte*>(values);
  node.values[name].assign(bytes, bytes + static_cast<size_t>(count) * size_of(type));
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t most, int64_t* count, void* into) {
  const Node& node = *of(descriptor);
  const auto give_nodes = [&](const std::vector<Descriptor>& nodes) {
    const int64_t there = std::ssize(nodes);
    *count = into == nullptr ? there : std::min(most, there);
    for (int64_t i = 0; into != nullptr && i < *count; ++i)
      of(static_cast<cudnnBackendDescriptor_t*>(into)[i]) = nodes[static_cast<size_t>(i)];
    return CUDNN_STATUS_SUCCESS;
  };
  switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS: {
      std::vector<Descriptor> suggestions;
      // LibTorch does not expect the error that an engine without a report leaves.
      const int64_t engines = ComputedElsewhere::is_so() ? kSaysNothing : kEngines;
      for (int64_t engine = engines - 1; engine >= 0; --engine)
        suggestions.push_back(configuration_of(node.nodes.at(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH)[0], engine));
      return give_nodes(suggestions);
    }
    case CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT:
      return answer<int64_t>({kEngines}, most, count, into);
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
      return answer<int64_t>({kWorkspace}, most, count, into);
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
      if (node.one<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX) == kSaysNothing) {
        last_error() = cudaErrorInvalidValue;
        return CUDNN_STATUS_INTERNAL_ERROR;
      }
      if (node.one<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX) == kNotDeterministic)
        return answer<cudnnBackendNumericalNote_t>({CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}, most, count, into);
      return answer<cudnnBackendNumericalNote_t>({}, most, count, into);
    case CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE:
      return answer<cudnnBackendBehaviorNote_t>({}, most, count, into);
    default:
      break;
  }
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    const auto found = node.nodes.find(name);
    return give_nodes(found == node.nodes.end() ? std::vector<Descriptor>() : found->second);
  }
  const auto bytes = node.all<std::byte>(name);
  *count = static_cast<int64_t>(bytes.size() / size_of(type));
  std::memcpy(into, bytes.data(), std::min(bytes.size(), static_cast<size_t>(most) * size_of(type)));
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack) {
  if (ComputedElsewhere::is_so()) return CUDNN_STATUS_SUCCESS;
  const Convolution convolution = convolution_of(*of(plan), *of(pack));
  if (convolution.algorithm == kNotDeterministic) fail("a convolution that is not deterministic");
  void* const workspace = of(pack)->one<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  launch("convolution " + std::to_string(convolution.algorithm), reinterpret_cast<Handle*>(handle)->stream, workspace,
         [convolution] { convolution.compute(); });
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t*) { return CUDNN_STATUS_SUCCESS; }
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t) { return CUDNN_STATUS_SUCCESS; }
cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t, cudnnDataType_t, int, const int*, const int*) {
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(cudnnHandle_t, cudnnBatchNormMode_t,
                                                                       cudnnBatchNormOps_t, cudnnTensorDescriptor_t,
                                                                       cudnnTensorDescriptor_t, cudnnTensorDescriptor_t,
                                                                       cudnnTensorDescriptor_t,
                                                                       cudnnActivationDescriptor_t, size_t* size) {
  return say(size);
}
cudnnStatus_t cudnnGetBatchNormalizationTrainingExReserveSpaceSize(cudnnHandle_t, cudnnBatchNormMode_t,
                                                                   cudnnBatchNormOps_t, cudnnActivationDescriptor_t,
                                                                   cudnnTensorDescriptor_t, size_t* size) {
  return say(size);
}
cudnnStatus_t cudnnGetBatchNormalizationBackwardExWorkspaceSize(cudnnHandle_t, cudnnBatchNormMode_t,
                                                                cudnnBatchNormOps_t, cudnnTensorDescriptor_t,
                                                                cudnnTensorDescriptor_t, cudnnTensorDescriptor_t,
                                                                cudnnTensorDescriptor_t, cudnnTensorDescriptor_t,
                                                                cudnnTensorDescriptor_t, cudnnActivationDescriptor_t,
                                                                size_t* size) {
  return say(size);
}
cudnnStatus_t cudnnBatchNormalizationForwardTrainingEx(cudnnHandle_t, cudnnBatchNormMode_t, cudnnBatchNormOps_t,
                                                       const void*, const void*, cudnnTensorDescriptor_t, const void*,
                                                       cudnnTensorDescriptor_t, const void*, cudnnTensorDescriptor_t,
                                                       void*, cudnnTensorDescriptor_t, const void*, const void*, double,
                                                       void*, void*, double, void*, void*, cudnnActivationDescriptor_t,
                                                       void*, size_t, void*, size_t) {
  return batch_norm();
}
cudnnStatus_t cudnnBatchNormalizationForwardInference(cudnnHandle_t, cudnnBatchNormMode_t, const void*, const void*,
                                                      cudnnTensorDescriptor_t, const void*, cudnnTensorDescriptor_t,
                                                      void*, cudnnTensorDescriptor_t, const void*, const void*,
                                                      const void*, const void*, double) {
  return batch_norm();
}
cudnnStatus_t cudnnBatchNormalizationBackwardEx(cudnnHandle_t, cudnnBatchNormMode_t, cudnnBatchNormOps_t, const void*,
                                                const void*, const void*, const void*, cudnnTensorDescriptor_t,
                                                const void*, cudnnTensorDescriptor_t, const void*,
                                                cudnnTensorDescriptor_t, const void*, cudnnTensorDescriptor_t, void*,
                                                cudnnTensorDescriptor_t, void*, cudnnTensorDescriptor_t, const void*,
                                                const void*, void*, void*, double, const void*, const void*,
                                                cudnnActivationDescriptor_t, void*, size_t, void*, size_t) {
  return batch_norm();
}

}  // extern "C"
