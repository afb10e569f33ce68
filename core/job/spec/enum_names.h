#pragma once
// The words for the enumerations of a JobSpec in specs, checkpoints and messages, and the names of the models.

#include <array>
#include <optional>
#include <span>
#include <string_view>

#include "core/job/spec/job_spec.h"

namespace estrain::spec {

template <typename E>
struct EnumName {
  E value;
  std::string_view name;
};

// Every value of E with its word, in the order of documentation.
template <typename E>
std::span<const EnumName<E>> enum_names();
template <>
std::span<const EnumName<Determinism>> enum_names();  // "D0", "D1", "D2", "auto"
template <>
std::span<const EnumName<Kernels>> enum_names();
template <>
std::span<const EnumName<Precision>> enum_names();
template <>
std::span<const EnumName<Algorithms>> enum_names();
template <>
std::span<const EnumName<CudaGraphs>> enum_names();
template <>
std::span<const EnumName<Exchange>> enum_names();
template <>
std::span<const EnumName<StateMemory>> enum_names();
template <>
std::span<const EnumName<Secrecy>> enum_names();
template <>
std::span<const EnumName<SendFactors>> enum_names();
template <>
std::span<const EnumName<DataFormat>> enum_names();
template <>
std::span<const EnumName<TokenType>> enum_names();
template <>
std::span<const EnumName<ImageOrder>> enum_names();
template <>
std::span<const EnumName<Sampler>> enum_names();
template <>
std::span<const EnumName<OptimizerKind>> enum_names();
template <>
std::span<const EnumName<AdjustLr>> enum_names();
template <>
std::span<const EnumName<ScheduleKind>> enum_names();
template <>
std::span<const EnumName<ScheduleUnit>> enum_names();
template <>
std::span<const EnumName<Anneal>> enum_names();
template <>
std::span<const EnumName<Decay>> enum_names();
template <>
std::span<const EnumName<Between>> enum_names();
template <>
std::span<const EnumName<Metric>> enum_names();
template <>
std::span<const EnumName<ThresholdMode>> enum_names();
template <>
std::span<const EnumName<NonfinitePolicy>> enum_names();
template <>
std::span<const EnumName<Weight>> enum_names();
template <>
std::span<const EnumName<Loss>> enum_names();
template <>
std::span<const EnumName<ElasticMode>> enum_names();
template <>
std::span<const EnumName<BatchMode>> enum_names();

// The term, among train.terms, that says how many targets count: for train.weight = "tokens".
inline constexpr std::string_view weight_term = "tokens";

std::string_view to_string(Determinism value);
std::string_view to_string(Kernels value);
std::string_view to_string(Precision value);
std::string_view to_string(Algorithms value);
std::string_view to_string(CudaGraphs value);
std::string_view to_string(Exchange value);
std::string_view to_string(StateMemory value);
std::string_view to_string(Secrecy value);
std::string_view to_string(SendFactors value);
std::string_view to_string(DataFormat value);
std::string_view to_string(TokenType value);
std::string_view to_string(ImageOrder value);
std::string_view to_string(Sampler value);
std::string_view to_string(OptimizerKind value);
std::string_view to_string(AdjustLr value);
std::string_view to_string(ScheduleKind value);
std::string_view to_string(ScheduleUnit value);
std::string_view to_string(Anneal value);
std::string_view to_string(Decay value);
std::string_view to_string(Between value);
std::string_view to_string(Metric value);
std::string_view to_string(ThresholdMode value);
std::string_view to_string(NonfinitePolicy value);
std::string_view to_string(Weight value);
std::string_view to_string(Loss value);
std::string_view to_string(ElasticMode value);
std::string_view to_string(BatchMode value);

// Returns the value called `name`, exactly; from_string<Determinism>("D1").
template <typename E>
std::optional<E> from_string(std::string_view name) {
  for (const EnumName<E>& entry : enum_names<E>()) {
    if (entry.name == name) return entry.value;
  }
  return std::nullopt;
}

// The values of model.name.
inline constexpr std::array<std::string_view, 10> model_names = {"mlp",   "lenet", "resnet18", "resnet34", "resnet50",
                                                                 "vgg11", "vgg19", "gpt",      "program",  "python"};

}  // namespace estrain::spec
