#include "kernels/pinned/convolution.h"

#include <cudnn.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "kernels/pinned/algorithm.h"
#include "kernels/pinned/cudnn_descriptor.h"
#include "kernels/pinned/failure.h"

namespace estrain::kernels::pinned {
namespace {

enum : int64_t { kX = 1, kW = 2, kY = 3 };  // names of the operands in cuDNN's graph

constexpr int64_t kMostConfigurations = 40;  // requested from each kind of heuristics
constexpr size_t kMostTried = 12;            // the first fitting ones are tried, in the suggested order
constexpr size_t kEnough = 8;                // with fewer candidates, all remaining engines are tried, too

cudnnDataType_t type_of(Element element) { return element == Element::f32 ? CUDNN_DATA_FLOAT : CUDNN_DATA_BFLOAT16; }

CudnnDescriptor tensor(int64_t id, Element element, const std::vector<int64_t>& sizes) {
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t i = sizes.size() - 1; i > 0; --i) strides[i - 1] = strides[i] * sizes[i];
  CudnnDescriptor descriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  descriptor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, id)
      .set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type_of(element))
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, static_cast<int64_t>(kConvolutionAlignment))
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, sizes)
      .set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, strides);
  return std::move(descriptor).finalized("a tensor");
}

// Returns `first` and a number of each axis.
template <typename Number>
std::vector<int64_t> with_axes(std::vector<int64_t> first, const ConvolutionProblem& c, Number number) {
  for (const ConvolutionExtent& axis : c.axes()) first.push_back(std::invoke(number, axis));
  return first;
}

CudnnDescriptor geometry(const ConvolutionProblem& c) {
  const std::vector<int64_t> padding = with_axes({}, c, &ConvolutionExtent::padding);
  CudnnDescriptor descriptor(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  descriptor.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, static_cast<int64_t>(padding.size()))
      .set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION)
      .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, padding)
      .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, padding)
      .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, with_axes({}, c, &ConvolutionExtent::dilation))
      .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, with_axes({}, c, &ConvolutionExtent::stride));
  return std::move(descriptor).finalized("a convolution");
}

// The backend's names for the operation of a pass and the operation's operands.
struct PassNames {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t alpha, beta, geometry, x, w, y;
};

PassNames names_of(Pass pass) {
  switch (pass) {
    case Pass::forward:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y};
    case Pass::data:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY};
    case Pass::filter:
      break;
  }
  return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY};
}

// The device for cuDNN: the current device, or a device given by its description.
class Device {
 public:
  Device() { require_cudnn(cudnnCreate(&handle_), "its start"); }
  explicit Device(const std::string& description) : description_(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR) {
    description_->set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                      std::vector<char>(description.begin(), description.end()));
    if (!description_->finalizes()) throw Failure("cuDNN: not a description of a device: " + description);
  }
  ~Device() {
    if (handle_ != nullptr) (void)cudnnDestroy(handle_);
  }
  Device(const Device&) = delete;

  cudnnHandle_t handle() const { return handle_; }

  // Sets a descriptor's device, in one of two ways.
  void tell(CudnnDescriptor& descriptor, std::optional<cudnnBackendAttributeName_t> by_handle,
            std::optional<cudnnBackendAttributeName_t> by_description) const {
    if (description_ && by_description) descriptor.set(*by_description, *description_);
    if (!description_ && by_handle) descriptor.set(*by_handle, CUDNN_TYPE_HANDLE, handle_);
  }

 private:
  cudnnHandle_t handle_ = nullptr;
  std::optional<CudnnDescriptor> description_;
};

// A descriptor and its parts, kept alive together: cuDNN does not document whether cuDNN reads the parts again.
struct Composed {
  std::vector<CudnnDescriptor> parts;
  CudnnDescriptor whole;
};

// Returns a graph of the one operation. The number of groups follows from the channels of image and filter.
Composed graph_of(const Device& device, const ConvolutionProblem& c) {
  const PassNames names = names_of(c.pass);
  CudnnDescriptor x = tensor(kX, c.element, with_axes({c.batch, c.channels_in}, c, &ConvolutionExtent::size));
  CudnnDescriptor w =
      tensor(kW, c.element, with_axes({c.channels_out, c.channels_in / c.groups}, c, &ConvolutionExtent::filter));
  CudnnDescriptor y = tensor(kY, c.element, with_axes({c.batch, c.channels_out}, c, &ConvolutionExtent::output));
  CudnnDescriptor shape = geometry(c);
  CudnnDescriptor operation(names.type);
  operation.set(names.alpha, CUDNN_TYPE_FLOAT, 1.0f)
      .set(names.beta, CUDNN_TYPE_FLOAT, 0.0f)
      .set(names.geometry, shape)
      .set(names.x, x)
      .set(names.w, w)
      .set(names.y, y);
  CudnnDescriptor finalized = std::move(operation).finalized("an operation");
  CudnnDescriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, finalized);
  device.tell(graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, std::nullopt);
  std::vector<CudnnDescriptor> parts;
  for (CudnnDescriptor* part : {&x, &w, &y, &shape, &finalized}) parts.push_back(std::move(*part));
  return {std::move(parts), std::move(graph).finalized("a graph of operations")};
}

// Returns nothing if cuDNN does not know the operation.
std::optional<Composed> graph_if_known(const Device& device, const ConvolutionProblem& c) {
  try {
    return graph_of(device, c);
  } catch (const Failure&) {
    return std::nullopt;
  }
}

std::optional<CudnnDescriptor> engine_of(const Device& device, const CudnnDescriptor& graph, int64_t index) {
  CudnnDescriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  engine.set(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph).set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, index);
  device.tell(engine, std::nullopt, CUDNN_ATTR_ENGINE_DEVICEPROP);
  if (!engine.finalizes()) return std::nullopt;
  return engine;
}

bool has(const std::vector<cudnnBackendNumericalNote_t>& notes, cudnnBackendNumericalNote_t note) {
  return std::ranges::find(notes, note) != notes.end();
}

// CUDNN_KNOB_TYPE_SPLIT_K: engines still have this knob, though the name is deprecated.
constexpr int64_t kSplitK = 0;

bool splits_sums(const ConvolutionAlgorithm& algorithm) {
  return std::ranges::any_of(algorithm.knobs,
                             [](const auto& knob) { return knob.first == kSplitK && knob.second > 1; });
}

// Returns how an algorithm with this engine differs from the convolution's arithmetic; nothing without a difference.
std::optional<std::string> wrong_arithmetic(const ConvolutionProblem& c, const ConvolutionAlgorithm& algorithm,
                                            const CudnnDescriptor& engine) {
  const auto notes = engine.values<cudnnBackendNumericalNote_t>(
      CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  if (has(notes, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)) return "it is not deterministic";
  if (has(notes, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION)) return "it sums in less than float32";
  // Not in cuDNN's notes: on an H200, engine 47 of cuDNN 9.19 rounds the parts of a split sum to bf16.
  if (c.element == Element::bf16 && splits_sums(algorithm)) return "it adds partial sums in less than float32";
  if (c.element != Element::f32) return std::nullopt;
  // 16-bit inputs are not TF32: half precision has a smaller exponent range, so small values become 0.
  if (has(notes, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS)) return "it converts its inputs to 16-bit floats";
  if (c.math == Math::exact && has(notes, CUDNN_NUMERICAL_NOTE_TENSOR_CORE))
    return "it computes with rounded inputs, in less than float32";
  return std::nullopt;
}

bool is_compiled_when_built(const CudnnDescriptor& engine) {
  const auto notes = engine.values<cudnnBackendBehaviorNote_t>(
      CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE, CUDNN_BEHAVIOR_NOTE_TYPE_COUNT);
  return std::ranges::find(notes, CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION) != notes.end();
}

ConvolutionAlgorithm algorithm_of(const CudnnDescriptor& configuration) {
  ConvolutionAlgorithm algorithm;
  std::vector<CudnnDescriptor> engine, choices;
  engine.emplace_back(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  configuration.fill(CUDNN_ATTR_ENGINECFG_ENGINE, engine);
  algorithm.engine = engine.front().value<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64);
  for (int i = 0; i < CUDNN_KNOB_TYPE_COUNTS; ++i) choices.emplace_back(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
  const int64_t count = configuration.fill(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, choices);
  for (int64_t i = 0; i < count; ++i) {
    const CudnnDescriptor& choice = choices[static_cast<size_t>(i)];
    algorithm.knobs.emplace_back(
        choice.value<cudnnBackendKnobType_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE),
        choice.value<int64_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64));
  }
  std::ranges::sort(algorithm.knobs);
  return algorithm;
}

using LeftOut = std::function<void(const std::string&)>;

std::vector<ConvolutionAlgorithm> suggested(const Device& device, const CudnnDescriptor& graph,
                                            cudnnBackendHeurMode_t mode, const LeftOut& left_out) {
  CudnnDescriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph)
      .set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
  device.tell(heuristics, std::nullopt, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP);
  if (!heuristics.finalizes()) return {};
  std::vector<CudnnDescriptor> configurations;
  for (int64_t i = 0; i < kMostConfigurations; ++i) configurations.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  const int64_t count = heuristics.fill(CUDNN_ATTR_ENGINEHEUR_RESULTS, configurations);
  std::vector<ConvolutionAlgorithm> algorithms;
  for (int64_t i = 0; i < count; ++i) {
    try {
      algorithms.push_back(algorithm_of(configurations[static_cast<size_t>(i)]));
    } catch (const Failure& failure) {
      left_out(failure.what());
    }
  }
  return algorithms;
}

// Returns every engine with the engine's default knobs.
std::vector<ConvolutionAlgorithm> all_engines(const CudnnDescriptor& graph) {
  std::vector<ConvolutionAlgorithm> all;
  const auto engines = graph.value<int64_t>(CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT, CUDNN_TYPE_INT64);
  for (int64_t engine = 0; engine < engines; ++engine) all.push_back({engine, {}});
  return all;
}

// Algorithms with the convolution's arithmetic, in two lists: precompiled engines, and engines to compile.
struct Sorted {
  std::vector<ConvolutionAlgorithm> ready, compiled;
};

Sorted sort_out(const Device& device, const CudnnDescriptor& graph, const ConvolutionProblem& convolution,
                const std::vector<ConvolutionAlgorithm>& algorithms, const LeftOut& left_out) {
  Sorted sorted;
  for (const ConvolutionAlgorithm& algorithm : algorithms) {
    try {
      const auto engine = engine_of(device, graph, algorithm.engine);
      if (!engine) continue;
      if (const auto reason = wrong_arithmetic(convolution, algorithm, *engine)) {
        left_out(*reason);
      } else {
        (is_compiled_when_built(*engine) ? sorted.compiled : sorted.ready).push_back(algorithm);
      }
    } catch (const Failure& failure) {
      left_out(failure.what());
    }
  }
  return sorted;
}

class CudnnPlan : public ConvolutionPlan {
 public:
  CudnnPlan(cudnnHandle_t handle, Composed plan)
      : handle_(handle),
        plan_(std::move(plan)),
        workspace_(plan_.whole.value<int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64)) {}

  size_t workspace() const override { return static_cast<size_t>(workspace_); }

  void run(const ConvolutionOperands& operands, void* workspace, void* stream) override {
    CudnnDescriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, std::vector<int64_t>{kX, kW, kY})
        .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
             std::vector<void*>{operands.x, operands.w, operands.y})
        .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace);
    const CudnnDescriptor finalized = std::move(pack).finalized("the operands of a convolution");
    require_cudnn(cudnnSetStream(handle_, static_cast<cudaStream_t>(stream)), "a stream");
    require_cudnn(cudnnBackendExecute(handle_, plan_.whole.get(), finalized.get()), "a convolution");
  }

 private:
  cudnnHandle_t handle_;
  Composed plan_;
  const int64_t workspace_;
};

}  // namespace

struct Convolutions::Handle : Device {
  using Device::Device;
};

Convolutions::Convolutions() : handle_(std::make_unique<Handle>()) {}
Convolutions::Convolutions(const std::string& device) : handle_(std::make_unique<Handle>(device)) {}
Convolutions::~Convolutions() = default;

std::string Convolutions::version() {
  const size_t version = cudnnGetVersion();
  return "cuDNN " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

std::vector<std::string> Convolutions::candidates(const ConvolutionProblem& convolution,
                                                  const std::function<void()>& between,
                                                  const std::function<void(const std::string&)>& left_out) const {
  const std::optional<Composed> known = graph_if_known(*handle_, convolution);
  if (!known) return {};
  const CudnnDescriptor& graph = known->whole;
  const auto texts_of = [&](std::vector<ConvolutionAlgorithm> algorithms) {
    std::ranges::sort(algorithms);
    algorithms.erase(std::unique(algorithms.begin(), algorithms.end()), algorithms.end());
    std::vector<std::string> texts;
    for (const ConvolutionAlgorithm& algorithm : algorithms) {
      between();
      if (const BuiltConvolution built = build(convolution, algorithm.text()); built.plan) {
        texts.push_back(algorithm.text());
      } else {
        left_out(built.refusal);
      }
    }
    return texts;
  };
  Sorted sorted;
  const auto take = [](std::vector<ConvolutionAlgorithm>& into, const std::vector<ConvolutionAlgorithm>& from,
                       size_t most) {
    into.insert(into.end(), from.begin(), from.begin() + static_cast<int64_t>(std::min(most, from.size())));
  };
  for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_B, CUDNN_HEUR_MODE_FALLBACK}) {
    const Sorted fits = sort_out(*handle_, graph, convolution, suggested(*handle_, graph, mode, left_out), left_out);
    take(sorted.ready, fits.ready, kMostTried);
    take(sorted.compiled, fits.compiled, kMostTried);
  }
  std::vector<std::string> texts = texts_of(sorted.ready);
  if (texts.size() < kEnough) {
    const Sorted others = sort_out(*handle_, graph, convolution, all_engines(graph), left_out);
    take(sorted.ready, others.ready, others.ready.size());
    take(sorted.compiled, others.compiled, others.compiled.size());
    texts = texts_of(sorted.ready);
  }
  return texts.empty() ? texts_of(sorted.compiled) : texts;
}

BuiltConvolution Convolutions::build(const ConvolutionProblem& convolution, const std::string& text) const {
  try {
    return try_to_build(convolution, text);
  } catch (const Failure& failure) {
    return {nullptr, failure.what()};
  }
}

BuiltConvolution Convolutions::try_to_build(const ConvolutionProblem& convolution, const std::string& text) const {
  const auto algorithm = ConvolutionAlgorithm::from_text(text);
  if (!algorithm) return {nullptr, "it is not an algorithm of cuDNN's"};
  std::optional<Composed> graph = graph_if_known(*handle_, convolution);
  if (!graph) return {nullptr, "cuDNN does not know this convolution"};
  auto engine = engine_of(*handle_, graph->whole, algorithm->engine);
  if (!engine) return {nullptr, "cuDNN has no such engine for this shape on this device"};
  if (const auto reason = wrong_arithmetic(convolution, *algorithm, *engine)) return {nullptr, *reason};
  std::vector<CudnnDescriptor> parts;
  std::vector<cudnnBackendDescriptor_t> raw_choices;
  for (const auto& [type, value] : algorithm->knobs) {
    CudnnDescriptor choice(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    choice.set(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, static_cast<cudnnBackendKnobType_t>(type))
        .set(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, value);
    if (!choice.finalizes()) return {nullptr, "cuDNN does not take the value of a knob"};
    raw_choices.push_back(choice.get());
    parts.push_back(std::move(choice));
  }
  CudnnDescriptor configuration(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  configuration.set(CUDNN_ATTR_ENGINECFG_ENGINE, *engine);
  if (!raw_choices.empty())
    configuration.set(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR, raw_choices);
  if (!configuration.finalizes()) return {nullptr, "the engine does not take the values of its knobs"};
  CudnnDescriptor made(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  made.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
  handle_->tell(made, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP);
  if (!made.finalizes()) return {nullptr, "cuDNN does not run it for this shape on this device"};
  for (CudnnDescriptor& part : graph->parts) parts.push_back(std::move(part));
  for (CudnnDescriptor* part : {&graph->whole, &*engine, &configuration}) parts.push_back(std::move(*part));
  auto plan = std::make_unique<CudnnPlan>(handle_->handle(), Composed{std::move(parts), std::move(made)});
  if (plan->workspace() > convolution.most_workspace()) return {nullptr, "it wants too large a workspace"};
  return {std::move(plan), ""};
}

}  // namespace estrain::kernels::pinned
