#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "core/inspect/verify/report.h"

namespace estrain::verify {
namespace {

std::string_view name_of(DifferenceKind evidence) {
  switch (evidence) {
    case DifferenceKind::tensors:
      return "tensors";
    case DifferenceKind::loss:
      return "loss";
    case DifferenceKind::record:
      return "record";
    case DifferenceKind::checkpoint:
      return "checkpoint";
    case DifferenceKind::own_record:
      return "own_record";
  }
  return "";
}

Json steps_json(const std::vector<Step>& steps) {
  Json list = Json::array();
  for (const Step step : steps) list.push_back(step.value);
  return list;
}

Json loss_json(float loss) {
  const Json number = std::isfinite(loss) ? Json(loss) : Json();
  return {{"value", number}, {"bits", fmt::format("{:08x}", std::bit_cast<uint32_t>(loss))}};
}

Json side_json(const SideSummary& side) {
  Json unreadable = Json::array();
  for (const UnreadableCheckpoint& each : side.unreadable)
    unreadable.push_back({{"step", each.step.value}, {"path", each.path}, {"why", each.why}});
  return {{"path", side.path},
          {"kind", side.is_run ? "run" : "checkpoint"},
          {"steps", side.steps},
          {"short_file", side.short_file},
          {"recorded", steps_json(side.recorded)},
          {"changes", side.changes},
          {"processor", side.processor},
          {"unreadable", unreadable}};
}

Json stage_json(const SideSummary& side, Step step) {
  const RecordedStage* stage = stage_of(side.stages, step);
  if (stage == nullptr) return nullptr;
  return {{"from", stage->from.value}, {"devices", stage->text}};
}

Json difference_json(const Comparison& comparison) {
  if (!comparison.difference) return nullptr;
  const Difference& difference = *comparison.difference;
  Json losses = Json::array(), tensors = Json::array();
  for (const LossDifference& loss : difference.losses)
    losses.push_back({{"est", loss.est.value}, {"a", loss_json(loss.a)}, {"b", loss_json(loss.b)}});
  for (const TensorDifference& tensor : difference.tensors) tensors.push_back(to_json(tensor));
  return {{"step", difference.step.value},
          {"evidence", name_of(difference.evidence)},
          {"losses", losses},
          {"digests", difference.digests},
          {"tensors", tensors},
          {"remarks", difference.remarks},
          {"stage_a", stage_json(comparison.a, difference.step)},
          {"stage_b", stage_json(comparison.b, difference.step)}};
}

}  // namespace

Json to_json(const TensorDifference& tensor) {
  const ElementDifference& element = tensor.first;
  const Json distance = element.distance ? Json(*element.distance) : Json();
  return {{"path", tensor.path},
          {"dtype", dtype_name(tensor.dtype)},
          {"shape", tensor.shape},
          {"differing", tensor.differing},
          {"first",
           {{"index", element.index},
            {"at", element.at},
            {"a", {{"value", element.value_a}, {"bits", element.bits_a}}},
            {"b", {{"value", element.value_b}, {"bits", element.bits_b}}},
            {"distance", distance}}}};
}

Json to_json(const Comparison& comparison) {
  return {{"identical", comparison.identical()},
          {"a", side_json(comparison.a)},
          {"b", side_json(comparison.b)},
          {"steps", {{"common", comparison.steps}, {"first", comparison.first.value}, {"last", comparison.last.value}}},
          {"ests", comparison.ests},
          {"digests", comparison.digests},
          {"states",
           {{"common", comparison.states.count},
            {"first", comparison.states.first.value},
            {"last", comparison.states.last.value}}},
          {"checkpoints", steps_json(comparison.checkpoints)},
          {"spec_keys", comparison.spec_keys},
          {"changes", comparison.changes},
          {"replay_from", comparison.replay_from ? Json(comparison.replay_from->value) : Json()},
          {"difference", difference_json(comparison)}};
}

}  // namespace estrain::verify
