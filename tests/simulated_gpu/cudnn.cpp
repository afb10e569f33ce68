// cuDNN (libcudnn.so.9) on a simulated GPU: convolutions by its backend's descriptors, by a few engines with bits of
// their own. One more is not deterministic, and says so.

#include <cudnn.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "tests/simulated_gpu/algorithms.h"
#include "tests/simulated_gpu/machine.h"

namespace {

using namespace estrain::simulated;

// A copy of what it was made of, as cuDNN's are.
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
constexpr int64_t kEngines = kAlgorithms + 1;

// What stands where in the operation of a pass.
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

  float at(int64_t a, int64_t b, int64_t c, int64_t d) const { return element(memory, type, place(a, b, c, d)); }
  void set(int64_t a, int64_t b, int64_t c, int64_t d, float value) const {
    set_element(memory, type, place(a, b, c, d), value);
  }
  template <typename Each>
  void for_each(Each each) const {
    for (int64_t a = 0; a < sizes[0]; ++a)
      for (int64_t b = 0; b < sizes[1]; ++b)
        for (int64_t c = 0; c < sizes[2]; ++c)
          for (int64_t d = 0; d < sizes[3]; ++d) set(a, b, c, d, each(a, b, c, d));
  }

 private:
  int64_t place(int64_t a, int64_t b, int64_t c, int64_t d) const {
    return ((a * sizes[1] + b) * sizes[2] + c) * sizes[3] + d;
  }
};

struct Convolution {
  cudnnBackendDescriptorType_t pass;
  int algorithm;
  std::vector<int64_t> padding, stride, dilation;
  Tensor x, w, y;

  int64_t groups() const { return x.sizes[1] / w.sizes[1]; }
  int64_t outputs() const { return y.sizes[1] / groups(); }  // of a group
  // Along height (0) or width (1): where output i meets tap k; -1 where it is outside.
  int64_t input(size_t axis, int64_t i, int64_t k) const {
    const int64_t at = i * stride[axis] - padding[axis] + k * dilation[axis];
    return at < x.sizes[2 + axis] ? at : -1;
  }
  // The output that meets input i with tap k; -1: none.
  int64_t output(size_t axis, int64_t i, int64_t k) const {
    const int64_t at = i + padding[axis] - k * dilation[axis];
    if (at < 0 || at % stride[axis] != 0) return -1;
    return at / stride[axis] < y.sizes[2 + axis] ? at / stride[axis] : -1;
  }

  void compute() const;
};

void Convolution::compute() const {
  const int64_t height = w.sizes[2], width = w.sizes[3], taps = height * width;
  switch (pass) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      return y.for_each([&](int64_t n, int64_t o, int64_t h, int64_t v) {
        return sum(algorithm, w.sizes[1] * taps, [&](int64_t i) {
          const int64_t c = i / taps, kh = i / width % height, kw = i % width;
          const int64_t ih = input(0, h, kh), iw = input(1, v, kw);
          return ih < 0 || iw < 0 ? 0.0f : x.at(n, o / outputs() * w.sizes[1] + c, ih, iw) * w.at(o, c, kh, kw);
        });
      });
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      return x.for_each([&](int64_t n, int64_t c, int64_t h, int64_t v) {
        return sum(algorithm, outputs() * taps, [&](int64_t i) {
          const int64_t o = c / w.sizes[1] * outputs() + i / taps, kh = i / width % height, kw = i % width;
          const int64_t oh = output(0, h, kh), ow = output(1, v, kw);
          return oh < 0 || ow < 0 ? 0.0f : y.at(n, o, oh, ow) * w.at(o, c % w.sizes[1], kh, kw);
        });
      });
    default:
      return w.for_each([&](int64_t o, int64_t c, int64_t kh, int64_t kw) {
        const int64_t outs = y.sizes[2] * y.sizes[3];
        return sum(algorithm, y.sizes[0] * outs, [&](int64_t i) {
          const int64_t n = i / outs, oh = i / y.sizes[3] % y.sizes[2], ow = i % y.sizes[3];
          const int64_t ih = input(0, oh, kh), iw = input(1, ow, kw);
          return ih < 0 || iw < 0 ? 0.0f : x.at(n, o / outputs() * w.sizes[1] + c, ih, iw) * y.at(n, o, oh, ow);
        });
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

// Engine `index` for the graph that heuristics or an engine are about.
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
    *count = std::min(most, static_cast<int64_t>(nodes.size()));
    for (int64_t i = 0; i < *count; ++i)
      of(static_cast<cudnnBackendDescriptor_t*>(into)[i]) = nodes[static_cast<size_t>(i)];
    return CUDNN_STATUS_SUCCESS;
  };
  switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS: {
      std::vector<Descriptor> suggestions;
      for (int64_t engine = kEngines - 1; engine >= 0; --engine)
        suggestions.push_back(configuration_of(node.nodes.at(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH)[0], engine));
      return give_nodes(suggestions);
    }
    case CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT:
      return answer<int64_t>({kEngines}, most, count, into);
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
      return answer<int64_t>({kWorkspace}, most, count, into);
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
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
  const Convolution convolution = convolution_of(*of(plan), *of(pack));
  if (convolution.algorithm == kNotDeterministic) fail("a convolution that is not deterministic");
  void* const workspace = of(pack)->one<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  launch("convolution " + std::to_string(convolution.algorithm), reinterpret_cast<Handle*>(handle)->stream, workspace,
         [convolution] { convolution.compute(); });
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"
