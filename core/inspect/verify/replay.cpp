#include "core/inspect/verify/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "core/base/error.h"
#include "core/inspect/verify/checkpoint_pair.h"
#include "core/inspect/verify/report.h"

namespace estrain::verify {
namespace {

using checkpoint::CheckpointFile;
using record::StepRecord;

CheckpointFile checkpoint_at(const Subject& subject, Step step) {
  auto file = open_checkpoint(subject, step);
  if (!file) throw Error::make(Fault::mismatch, "{}: the replay left no checkpoint of step {}", subject.path, step);
  return *std::move(file);
}

const StepRecord* losses_at(const Subject& subject, Step step) {
  const auto found = std::find_if(subject.metrics.steps.begin(), subject.metrics.steps.end(),
                                  [&](const StepRecord& record) { return record.step == step; });
  return found == subject.metrics.steps.end() ? nullptr : &*found;
}

bool same_losses(const StepRecord* a, const StepRecord* b) {
  if (a == nullptr || b == nullptr) return true;
  return std::equal(a->est_losses.begin(), a->est_losses.end(), b->est_losses.begin(), b->est_losses.end(),
                    [](float x, float y) { return std::bit_cast<uint32_t>(x) == std::bit_cast<uint32_t>(y); });
}

// Whether the replay agrees with everything recorded about the run at the step.
bool agrees(const Subject& recorded, const Subject& replay, Step step, PresentDigests& present) {
  const CheckpointFile file = checkpoint_at(replay, step);
  if (!same_losses(losses_at(recorded, step), losses_at(replay, step))) return false;
  if (recorded.fingerprints)
    if (const std::optional<size_t> record = recorded.fingerprints->find(step))
      if (!unlike_record(file, present, *recorded.fingerprints, *record).empty()) return false;
  const auto own = open_checkpoint(recorded, step);
  return !own || tensor_differences(*own, file, present).empty();
}

// The differences between the run that does not repeat and the replay, which equals the repeatable run.
std::vector<TensorDifference> damage(const Subject& a, const Subject& b, Step step, PresentDigests& present) {
  const auto of_a = open_checkpoint(a, step), of_b = open_checkpoint(b, step);
  if (!of_a || !of_b) return {};
  return tensor_differences(*of_a, *of_b, present);
}

std::string_view name_of(Repeats repeats) {
  switch (repeats) {
    case Repeats::difference:
      return "difference";
    case Repeats::a_only:
      return "a_only";
    case Repeats::b_only:
      return "b_only";
    case Repeats::neither:
      return "neither";
    case Repeats::both:
      return "both";
  }
  return "";
}

std::string sentence_of(Repeats repeats, const ReplayPlan& plan) {
  switch (repeats) {
    case Repeats::difference:
      return fmt::format(
          "the difference repeats: replayed from step {}, A's placement and B's give different bits at step {}",
          plan.from, plan.to);
    case Repeats::a_only:
      return fmt::format("A repeats, B does not: B was disturbed once, between steps {} and {} or on disk", plan.from,
                         plan.to);
    case Repeats::b_only:
      return fmt::format("B repeats, A does not: A was disturbed once, between steps {} and {} or on disk", plan.from,
                         plan.to);
    case Repeats::neither:
      return "both placements now give the same bits, which are neither A's nor B's: were the runs made on this "
             "machine?";
    case Repeats::both:
      return "both states equal the replay's: only their records differ";
  }
  return "";
}

}  // namespace

std::optional<ReplayPlan> plan_replay(const Comparison& comparison, const Subject& a) {
  if (!comparison.difference || comparison.difference->evidence == DifferenceKind::tensors) return std::nullopt;
  if (!comparison.replay_from) return std::nullopt;
  const Step from = *comparison.replay_from;
  return ReplayPlan{from, comparison.difference->step, a.checkpoints.at(from)};
}

ReplayVerdict judge_replay(const ReplayPlan& plan, const Subject& a, const Subject& b, const Subject& replay_a,
                           const Subject& replay_b) {
  PresentDigests present;
  ReplayVerdict verdict;
  verdict.tensors = tensor_differences(checkpoint_at(replay_a, plan.to), checkpoint_at(replay_b, plan.to), present);
  if (!verdict.tensors.empty()) {
    verdict.repeats = Repeats::difference;
  } else {
    const bool a_repeats = agrees(a, replay_a, plan.to, present), b_repeats = agrees(b, replay_b, plan.to, present);
    verdict.repeats =
        a_repeats ? (b_repeats ? Repeats::both : Repeats::a_only) : (b_repeats ? Repeats::b_only : Repeats::neither);
    if (verdict.repeats == Repeats::a_only) verdict.tensors = damage(replay_a, b, plan.to, present);
    if (verdict.repeats == Repeats::b_only) verdict.tensors = damage(a, replay_b, plan.to, present);
  }
  verdict.sentence = sentence_of(verdict.repeats, plan);
  return verdict;
}

std::string to_text(const ReplayVerdict& verdict) {
  std::string text = fmt::format("replay: {}\n", verdict.sentence);
  if (!verdict.tensors.empty()) text += fmt::format("  {}\n", describe(verdict.tensors.front()));
  if (verdict.tensors.size() > 1) text += fmt::format("  and {} more tensors\n", verdict.tensors.size() - 1);
  return text;
}

Json to_json(const ReplayVerdict& verdict) {
  Json tensors = Json::array();
  for (const TensorDifference& tensor : verdict.tensors) tensors.push_back(to_json(tensor));
  return {{"repeats", name_of(verdict.repeats)}, {"sentence", verdict.sentence}, {"tensors", tensors}};
}

}  // namespace estrain::verify
