#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>
#include <map>

#include "core/base/counted.h"
#include "core/inspect/verify/report.h"

namespace estrain::verify {
namespace {

constexpr size_t named_at_most = 5;
constexpr size_t tensors_at_most = 3;

template <typename Items>
std::string first_few(const Items& items) {
  const size_t shown = std::min(items.size(), named_at_most);
  std::string text = fmt::format("{}", fmt::join(items.begin(), items.begin() + static_cast<long>(shown), ", "));
  if (items.size() > shown) text += fmt::format(" and {} more", items.size() - shown);
  return text;
}

std::string range_of(const SideSummary& side) {
  if (!side.is_run) return "a checkpoint";
  if (side.steps == 0) return "a run without recorded steps";
  return fmt::format("steps {} to {}", side.first, side.last);
}

void add_sides(const Comparison& comparison, std::string& text) {
  text += fmt::format("  A: {} ({})\n  B: {} ({})\n", comparison.a.path, range_of(comparison.a), comparison.b.path,
                      range_of(comparison.b));
  if (!comparison.spec_keys.empty())
    text +=
        fmt::format("  their specs differ in keys that define the bits: {}\n", fmt::join(comparison.spec_keys, ", "));
  if (!comparison.changes.empty()) text += fmt::format("  {}\n", comparison.changes);
  if (comparison.steps > 0 && comparison.a.is_run && comparison.b.is_run && comparison.a.steps != comparison.b.steps)
    text += fmt::format("  A has {}, B {}: compared the {} in common\n", counted(comparison.a.steps, "step"),
                        comparison.b.steps, comparison.steps);
  for (const auto& [name, side] : {std::pair("A", &comparison.a), std::pair("B", &comparison.b)})
    for (const std::string& change : side->changes) text += fmt::format("  {}: {}\n", name, change);
  for (const SideSummary* side : {&comparison.a, &comparison.b}) {
    if (!side->short_file.empty()) text += fmt::format("  {}\n", side->short_file);
    for (const UnreadableCheckpoint& damaged : side->unreadable)
      text += fmt::format("  not compared: {}\n", damaged.why);
  }
}

std::string losses_and_digests(const Comparison& comparison) {
  const std::string losses = fmt::format("losses of {}", counted(comparison.ests, "EST"));
  const std::string digests = counted(comparison.digests, "digest");
  const int64_t steps = comparison.steps, states = comparison.states.count;
  if (steps == 0) return states == 0 ? "" : fmt::format("{} at {}, no losses", digests, counted(states, "step"));
  if (states == 0) return losses + " at every step (not both recorded fingerprints)";
  if (states == steps) return fmt::format("{} and {} at every step", losses, digests);
  return fmt::format("{} at {}, {} at {} of {}", losses, counted(steps, "step"), digests, std::min(states, steps),
                     counted(std::max(states, steps), "step"));
}

std::string as_recorded(const Comparison& comparison) {
  const std::vector<Step>&a = comparison.a.recorded, &b = comparison.b.recorded;
  if (a == b) return fmt::format("checkpoints equal the records of step {}", fmt::join(a, ", "));
  std::string text;
  for (const auto& [side, steps] : {std::pair("A", &a), std::pair("B", &b)})
    if (!steps->empty())
      text += fmt::format("{}{}'s checkpoints equal the records of step {}", text.empty() ? "" : ", ", side,
                          fmt::join(*steps, ", "));
  return text;
}

std::string what_was_compared(const Comparison& comparison) {
  std::string text = losses_and_digests(comparison);
  if (!comparison.checkpoints.empty())
    text += fmt::format("{}every tensor of the checkpoints of step {}", text.empty() ? "" : "; ",
                        fmt::join(comparison.checkpoints, ", "));
  if (!comparison.a.recorded.empty() || !comparison.b.recorded.empty())
    text += (text.empty() ? "" : "; ") + as_recorded(comparison);
  return text;
}

std::string verdict(const Comparison& comparison) {
  const CommonSteps losses{comparison.steps, comparison.first, comparison.last}, &states = comparison.states;
  if (losses.count == 0 && states.count == 0) return "identical: bit for bit\n";
  const bool by_states = losses.count == 0 || (states.count > 0 && states.count < losses.count);
  const CommonSteps& all = by_states ? states : losses;
  return fmt::format("identical: bit for bit over {} ({} to {}){}\n", counted(all.count, "step"), all.first, all.last,
                     by_states && losses.count > 0 ? fmt::format(", in their losses over {}", losses.count) : "");
}

std::string describe(const LossDifference& loss) {
  return fmt::format("EST {}: loss {} ({:08x}) in A, {} ({:08x}) in B", loss.est, loss.a,
                     std::bit_cast<uint32_t>(loss.a), loss.b, std::bit_cast<uint32_t>(loss.b));
}

std::string where_it_shows(const Difference& difference) {
  switch (difference.evidence) {
    case DifferenceKind::tensors:
      return "in the tensors: they belong to different jobs";
    case DifferenceKind::loss:
      return fmt::format("in the losses of step {}", difference.step);
    case DifferenceKind::record:
      return fmt::format("in the state recorded after step {}", difference.step);
    case DifferenceKind::checkpoint:
      return fmt::format("in the checkpoints of step {}", difference.step);
    case DifferenceKind::own_record:
      return fmt::format("a checkpoint of step {} differs from its record", difference.step);
  }
  return "";
}

void add_stage(const char* name, const SideSummary& side, Step step, std::string& text) {
  const RecordedStage* stage = stage_of(side.stages, step);
  text += stage == nullptr ? fmt::format("  {} ran on: not known\n", name)
                           : fmt::format("  {} ran on: {}, since step {}\n", name, stage->text, stage->from);
}

// Adds only the first few of several lines with the same beginning, such as "only A has …".
void add_remarks(const std::vector<std::string>& remarks, std::string& text) {
  std::map<std::string, size_t> alike;
  for (const std::string& remark : remarks)
    if (++alike[remark.substr(0, 6)] <= named_at_most) text += fmt::format("  {}\n", remark);
  for (const auto& [begin, count] : alike)
    if (count > named_at_most) text += fmt::format("  {} …: {} more\n", begin, count - named_at_most);
}

void add_difference(const Comparison& comparison, std::string& text) {
  const Difference& difference = *comparison.difference;
  add_remarks(difference.remarks, text);
  for (size_t i = 0; i < std::min(difference.losses.size(), named_at_most); ++i)
    text += fmt::format("  {}\n", describe(difference.losses[i]));
  if (difference.losses.size() > named_at_most)
    text += fmt::format("  and the losses of {} more ESTs\n", difference.losses.size() - named_at_most);
  if (!difference.digests.empty())
    text += fmt::format("  digests after step {}: {} of {} differ: {}\n", difference.step, difference.digests.size(),
                        comparison.digests, first_few(difference.digests));
  for (size_t i = 0; i < std::min(difference.tensors.size(), tensors_at_most); ++i)
    text += fmt::format("  {}\n", describe(difference.tensors[i]));
  if (difference.tensors.size() > tensors_at_most)
    text += fmt::format("  and {} more tensors\n", difference.tensors.size() - tensors_at_most);
  add_stage("A", comparison.a, difference.step, text);
  add_stage("B", comparison.b, difference.step, text);
  const std::string &of_a = comparison.a.processor, &of_b = comparison.b.processor;
  if (of_a != of_b)
    text += fmt::format("  A's processor: {}; B's: {}\n", of_a.empty() ? "not known" : of_a,
                        of_b.empty() ? "not known" : of_b);
  if (comparison.replay_from)
    text += fmt::format("  equal up to the checkpoints of step {}\n", *comparison.replay_from);
}

}  // namespace

std::string describe(const TensorDifference& tensor) {
  const ElementDifference& element = tensor.first;
  std::string text = fmt::format("{} {} [{}]: {} of its elements; first at [{}] (flat {}): A {} ({}), B {} ({})",
                                 tensor.path, dtype_name(tensor.dtype), fmt::join(tensor.shape, ", "), tensor.differing,
                                 fmt::join(element.at, ", "), element.index, element.value_a, element.bits_a,
                                 element.value_b, element.bits_b);
  const bool floating = tensor.dtype == checkpoint::DType::f32 || tensor.dtype == checkpoint::DType::f64;
  if (element.distance) text += fmt::format(", {}{} apart", *element.distance, floating ? " ulp" : "");
  return text;
}

std::string to_text(const Comparison& comparison) {
  std::string text;
  if (comparison.identical()) {
    text = verdict(comparison);
    add_sides(comparison, text);
    text += fmt::format("  compared: {}\n", what_was_compared(comparison));
    return text;
  }
  text = fmt::format("different: first {}\n", where_it_shows(*comparison.difference));
  add_sides(comparison, text);
  add_difference(comparison, text);
  return text;
}

}  // namespace estrain::verify
