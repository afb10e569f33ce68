#include "core/job/spec/enum_names.h"

#include <vector>

#include "core/job/spec/data_formats.h"

namespace estrain::spec {
namespace {

// Returns the names from a table whose rows are in the order of the enumeration.
template <typename E, typename Traits, size_t n>
constexpr std::array<EnumName<E>, n> names_of(const Traits (&table)[n]) {
  std::array<EnumName<E>, n> names = {};
  for (size_t i = 0; i < n; ++i) names[i] = {table[i].kind, table[i].name};
  return names;
}

constexpr EnumName<Determinism> determinism_names[] = {
    {Determinism::d0, "D0"}, {Determinism::d1, "D1"}, {Determinism::d2, "D2"}, {Determinism::automatic, "auto"}};
constexpr EnumName<Kernels> kernels_names[] = {{Kernels::torch, "torch"}, {Kernels::portable, "portable"}};
constexpr EnumName<Precision> precision_names[] = {
    {Precision::fp32, "fp32"}, {Precision::tf32, "tf32"}, {Precision::bf16, "bf16"}};
constexpr EnumName<Algorithms> algorithms_names[] = {{Algorithms::measured, "measured"}, {Algorithms::torch, "torch"}};
constexpr EnumName<CudaGraphs> cuda_graphs_names[] = {{CudaGraphs::off, "off"}, {CudaGraphs::automatic, "auto"}};
constexpr EnumName<Exchange> exchange_names[] = {{Exchange::automatic, "auto"}, {Exchange::host, "host"}};
constexpr EnumName<StateMemory> state_names[] = {{StateMemory::device, "device"}, {StateMemory::host, "host"}};
constexpr EnumName<Secrecy> secrecy_names[] = {{Secrecy::all, "all"}, {Secrecy::control, "control"}};
constexpr EnumName<SendFactors> send_factors_names[] = {
    {SendFactors::automatic, "auto"}, {SendFactors::always, "always"}, {SendFactors::never, "never"}};
constexpr EnumName<TokenType> token_type_names[] = {{TokenType::u16, "uint16"}, {TokenType::u32, "uint32"}};
constexpr EnumName<ImageOrder> image_order_names[] = {
    {ImageOrder::automatic, "auto"}, {ImageOrder::nchw, "nchw"}, {ImageOrder::nhwc, "nhwc"}};
constexpr EnumName<Sampler> sampler_names[] = {{Sampler::all, "all"},
                                               {Sampler::weighted, "weighted"},
                                               {Sampler::balanced, "balanced"},
                                               {Sampler::per_class, "per_class"}};
constexpr auto optimizer_names = names_of<OptimizerKind>(optimizers);
constexpr EnumName<AdjustLr> adjust_lr_names[] = {{AdjustLr::original, "original"},
                                                  {AdjustLr::match_rms_adamw, "match_rms_adamw"}};
constexpr auto schedule_names = names_of<ScheduleKind>(schedules);
constexpr EnumName<ScheduleUnit> unit_names[] = {{ScheduleUnit::step, "step"}, {ScheduleUnit::epoch, "epoch"}};
constexpr EnumName<Anneal> anneal_names[] = {{Anneal::cosine, "cos"}, {Anneal::linear, "linear"}};
constexpr EnumName<Decay> decay_names[] = {
    {Decay::linear, "linear"}, {Decay::cosine, "cos"}, {Decay::one_minus_sqrt, "1-sqrt"}};
constexpr EnumName<Between> between_names[] = {{Between::constant, "constant"}, {Between::linear, "linear"}};
constexpr EnumName<Metric> metric_names[] = {{Metric::loss, "loss"}, {Metric::accuracy, "accuracy"}};
constexpr EnumName<ThresholdMode> threshold_names[] = {{ThresholdMode::relative, "rel"},
                                                       {ThresholdMode::absolute, "abs"}};
constexpr EnumName<NonfinitePolicy> nonfinite_names[] = {{NonfinitePolicy::stop, "stop"},
                                                         {NonfinitePolicy::skip, "skip"}};
constexpr EnumName<Weight> weight_names[] = {{Weight::ests, "ests"}, {Weight::tokens, "tokens"}};
constexpr EnumName<Loss> loss_names[] = {{Loss::output, "output"},
                                         {Loss::cross_entropy, "cross_entropy"},
                                         {Loss::mse, "mse"},
                                         {Loss::bce_with_logits, "bce_with_logits"},
                                         {Loss::nll, "nll"}};
constexpr EnumName<ElasticMode> elastic_names[] = {{ElasticMode::manual, "manual"}, {ElasticMode::automatic, "auto"}};
constexpr EnumName<BatchMode> batch_mode_names[] = {{BatchMode::fixed, "fixed"}, {BatchMode::adaptive, "adaptive"}};

template <typename E>
std::string_view name_of(E value) {
  for (const EnumName<E>& entry : enum_names<E>()) {
    if (entry.value == value) return entry.name;
  }
  return "?";
}

}  // namespace

template <>
std::span<const EnumName<Determinism>> enum_names() {
  return determinism_names;
}
template <>
std::span<const EnumName<Kernels>> enum_names() {
  return kernels_names;
}
template <>
std::span<const EnumName<Precision>> enum_names() {
  return precision_names;
}
template <>
std::span<const EnumName<Algorithms>> enum_names() {
  return algorithms_names;
}
template <>
std::span<const EnumName<CudaGraphs>> enum_names() {
  return cuda_graphs_names;
}
template <>
std::span<const EnumName<Exchange>> enum_names() {
  return exchange_names;
}
template <>
std::span<const EnumName<StateMemory>> enum_names() {
  return state_names;
}
template <>
std::span<const EnumName<Secrecy>> enum_names() {
  return secrecy_names;
}
template <>
std::span<const EnumName<SendFactors>> enum_names() {
  return send_factors_names;
}
template <>
std::span<const EnumName<DataFormat>> enum_names() {
  static const std::vector<EnumName<DataFormat>> names = [] {
    std::vector<EnumName<DataFormat>> all;
    for (const DataFormatTraits& row : data_formats()) all.push_back({row.format, row.name});
    return all;
  }();
  return names;
}
template <>
std::span<const EnumName<TokenType>> enum_names() {
  return token_type_names;
}
template <>
std::span<const EnumName<ImageOrder>> enum_names() {
  return image_order_names;
}
template <>
std::span<const EnumName<Sampler>> enum_names() {
  return sampler_names;
}
template <>
std::span<const EnumName<OptimizerKind>> enum_names() {
  return optimizer_names;
}
template <>
std::span<const EnumName<AdjustLr>> enum_names() {
  return adjust_lr_names;
}
template <>
std::span<const EnumName<ScheduleKind>> enum_names() {
  return schedule_names;
}
template <>
std::span<const EnumName<ScheduleUnit>> enum_names() {
  return unit_names;
}
template <>
std::span<const EnumName<Anneal>> enum_names() {
  return anneal_names;
}
template <>
std::span<const EnumName<Decay>> enum_names() {
  return decay_names;
}
template <>
std::span<const EnumName<Between>> enum_names() {
  return between_names;
}
template <>
std::span<const EnumName<Metric>> enum_names() {
  return metric_names;
}
template <>
std::span<const EnumName<ThresholdMode>> enum_names() {
  return threshold_names;
}
template <>
std::span<const EnumName<NonfinitePolicy>> enum_names() {
  return nonfinite_names;
}
template <>
std::span<const EnumName<Weight>> enum_names() {
  return weight_names;
}
template <>
std::span<const EnumName<Loss>> enum_names() {
  return loss_names;
}
template <>
std::span<const EnumName<ElasticMode>> enum_names() {
  return elastic_names;
}
template <>
std::span<const EnumName<BatchMode>> enum_names() {
  return batch_mode_names;
}

std::string_view to_string(Determinism value) { return name_of(value); }
std::string_view to_string(Kernels value) { return name_of(value); }
std::string_view to_string(Precision value) { return name_of(value); }
std::string_view to_string(Algorithms value) { return name_of(value); }
std::string_view to_string(CudaGraphs value) { return name_of(value); }
std::string_view to_string(Exchange value) { return name_of(value); }
std::string_view to_string(StateMemory value) { return name_of(value); }
std::string_view to_string(Secrecy value) { return name_of(value); }
std::string_view to_string(SendFactors value) { return name_of(value); }
std::string_view to_string(DataFormat value) { return name_of(value); }
std::string_view to_string(TokenType value) { return name_of(value); }
std::string_view to_string(ImageOrder value) { return name_of(value); }
std::string_view to_string(Sampler value) { return name_of(value); }
std::string_view to_string(OptimizerKind value) { return name_of(value); }
std::string_view to_string(AdjustLr value) { return name_of(value); }
std::string_view to_string(ScheduleKind value) { return name_of(value); }
std::string_view to_string(ScheduleUnit value) { return name_of(value); }
std::string_view to_string(Anneal value) { return name_of(value); }
std::string_view to_string(Decay value) { return name_of(value); }
std::string_view to_string(Between value) { return name_of(value); }
std::string_view to_string(Metric value) { return name_of(value); }
std::string_view to_string(ThresholdMode value) { return name_of(value); }
std::string_view to_string(NonfinitePolicy value) { return name_of(value); }
std::string_view to_string(Weight value) { return name_of(value); }
std::string_view to_string(Loss value) { return name_of(value); }
std::string_view to_string(ElasticMode value) { return name_of(value); }
std::string_view to_string(BatchMode value) { return name_of(value); }

}  // namespace estrain::spec
