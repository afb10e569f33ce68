#include "core/inspect/verify/compare.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <tuple>

#include "core/base/error.h"
#include "core/base/files/run_files.h"
#include "core/inspect/verify/checkpoint_pair.h"
#include "core/inspect/verify/comparison.h"
#include "core/inspect/verify/history.h"
#include "core/job/spec/parsing/parse.h"

namespace estrain::verify {
namespace {

using checkpoint::CheckpointFile;
using record::FingerprintReader;
using record::StepRecord;
using Pair = std::pair<Step, Step>;  // steps of A's and B's checkpoints

// Calls visit(i, j) for every pair of positions with the same step, ascending, until `visit` returns false.
template <typename StepOfA, typename StepOfB, typename Visit>
void for_each_common(size_t size_a, size_t size_b, StepOfA&& step_a, StepOfB&& step_b, Visit&& visit) {
  for (size_t i = 0, j = 0; i < size_a && j < size_b;) {
    const Step of_a = step_a(i), of_b = step_b(j);
    if (of_a == of_b && !visit(i, j)) return;
    i += of_a <= of_b;
    j += of_b <= of_a;
  }
}

template <typename Visit>
void for_each_common(const std::vector<StepRecord>& a, const std::vector<StepRecord>& b, Visit&& visit) {
  for_each_common(
      a.size(), b.size(), [&](size_t i) { return a[i].step; }, [&](size_t j) { return b[j].step; },
      [&](size_t i, size_t j) { return visit(a[i], b[j]); });
}

bool same_bits(float a, float b) { return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b); }

std::optional<Difference> loss_difference(const StepRecord& a, const StepRecord& b) {
  Difference difference{a.step, DifferenceKind::loss, {}, {}, {}, {}};
  for (size_t rank = 0; rank < std::min(a.est_losses.size(), b.est_losses.size()); ++rank)
    if (!same_bits(a.est_losses[rank], b.est_losses[rank]))
      difference.losses.push_back({VirtualRank(static_cast<int64_t>(rank)), a.est_losses[rank], b.est_losses[rank]});
  if (difference.losses.empty() && same_bits(a.loss, b.loss)) return std::nullopt;
  if (difference.losses.empty()) difference.remarks.push_back("only the mean loss differs, not that of any EST");
  return difference;
}

void require_intact(const FingerprintReader& reader, size_t record) {
  if (!reader.intact(record))
    throw Error::make(Fault::corrupt, "{}: its record of step {} is damaged", reader.path(), reader.step(record));
}

// A damaged step number would hide records from the search.
void require_rising(const FingerprintReader& reader) {
  for (size_t i = 1; i < reader.size(); ++i)
    if (reader.step(i) != reader.step(i - 1).next()) require_intact(reader, i);
}

// Returns the steps with losses, or digests, on both sides.
CommonSteps common_steps(const record::Metrics& a, const record::Metrics& b) {
  CommonSteps common;
  for_each_common(a.steps, b.steps, [&](const StepRecord& of_a, const StepRecord&) {
    if (common.count++ == 0) common.first = of_a.step;
    common.last = of_a.step;
    return true;
  });
  return common;
}

CommonSteps common_steps(const FingerprintReader& a, const FingerprintReader& b) {
  CommonSteps common;
  const auto visit = [&](size_t i, size_t) {
    if (common.count++ == 0) common.first = a.step(i);
    common.last = a.step(i);
    return true;
  };
  for_each_common(
      a.size(), b.size(), [&](size_t i) { return a.step(i); }, [&](size_t j) { return b.step(j); }, visit);
  return common;
}

// Returns the first step at which an EST's loss differs in any bit, with all differing losses of the step. A different
// mean with equal losses of ESTs also counts, without a LossDifference.
std::optional<Difference> first_loss_difference(const record::Metrics& a, const record::Metrics& b) {
  std::optional<Difference> found;
  for_each_common(a.steps, b.steps, [&](const StepRecord& of_a, const StepRecord& of_b) {
    found = loss_difference(of_a, of_b);
    return !found;
  });
  return found;
}

// The first step with a different digest. Both must have the same names. Throws Fault::corrupt if the cause is a
// damaged file.
std::optional<Difference> first_record_difference(const FingerprintReader& a, const FingerprintReader& b) {
  require_rising(a);
  require_rising(b);
  std::optional<Difference> found;
  const auto visit = [&](size_t i, size_t j) {
    const auto of_a = a.digests(i), of_b = b.digests(j);
    if (std::memcmp(of_a.data(), of_b.data(), of_a.size_bytes()) == 0) return true;
    require_intact(a, i);
    require_intact(b, j);
    found = {a.step(i), DifferenceKind::record, {}, {}, {}, {}};
    for (size_t k = 0; k < of_a.size(); ++k)
      if (of_a[k] != of_b[k]) found->digests.push_back(a.names()[k]);
    return false;
  };
  for_each_common(
      a.size(), b.size(), [&](size_t i) { return a.step(i); }, [&](size_t j) { return b.step(j); }, visit);
  return found;
}

bool earlier(const Difference& a, const Difference& b) {
  return std::tie(a.step, a.evidence) < std::tie(b.step, b.evidence);
}

std::string end_of(const std::string& file, bool empty, Step last) {
  return empty ? fmt::format("{} has no step", file) : fmt::format("{} ends at step {}", file, last);
}

// The two record files of a run grow together, so the shorter file is torn.
std::string short_file(const Subject& run) {
  if (!run.fingerprints || (run.spec && !run.spec->logging.fingerprints)) return "";
  const bool no_losses = run.metrics.steps.empty(), no_digests = run.fingerprints->size() == 0;
  const Step losses = no_losses ? Step(0) : run.metrics.steps.back().step;
  const Step digests = no_digests ? Step(0) : run.fingerprints->step(run.fingerprints->size() - 1);
  if (losses == digests) return "";
  const std::string metrics = end_of(RunFiles(run.path).metrics(), no_losses, losses);
  const std::string fingerprints = end_of(RunFiles(run.path).fingerprints(), no_digests, digests);
  const auto& [shorter, longer] =
      losses < digests ? std::pair(metrics, fingerprints) : std::pair(fingerprints, metrics);
  return fmt::format("torn or truncated: {}, {}", shorter, longer);
}

SideSummary summarize(const Subject& subject) {
  SideSummary side;
  side.path = subject.path;
  side.is_run = subject.is_run;
  side.steps = static_cast<int64_t>(subject.metrics.steps.size());
  if (side.steps > 0) {
    side.first = subject.metrics.steps.front().step;
    side.last = subject.metrics.steps.back().step;
  }
  side.short_file = short_file(subject);
  side.unreadable = subject.unreadable;
  side.stages = subject.stages;
  side.processor = subject.processor;
  return side;
}

// Returns the processor of the stage that computed the step, from a checkpoint of this stage.
std::string processor_at(const Subject& subject, Step step) {
  std::string processor;
  for (const auto& [saved, path] : subject.checkpoints) {
    if (stage_of(subject.stages, saved) != stage_of(subject.stages, step)) continue;
    if (const auto file = open_checkpoint(subject, saved)) processor = file->meta().cpu;
    if (saved >= step) break;
  }
  return processor;
}

std::vector<std::string> names_of_one_only(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  std::vector<std::string> remarks;
  const auto list = [&](const char* side, const std::vector<std::string>& of, const std::vector<std::string>& other) {
    for (const std::string& name : of)
      if (std::find(other.begin(), other.end(), name) == other.end())
        remarks.push_back(fmt::format("only {} has {}", side, name));
  };
  list("A", a, b);
  list("B", b, a);
  if (remarks.empty()) remarks.push_back("their tensors are in another order");
  return remarks;
}

class Search {
 public:
  Search(const Subject& a, const Subject& b) : a_(a), b_(b) {}

  Comparison run() {
    result_.a = summarize(a_);
    result_.b = summarize(b_);
    if (a_.spec && b_.spec) result_.spec_keys = spec::changed_keys(*a_.spec, *b_.spec);
    search_steps();
    search_checkpoints();
    search_own_records();
    require_something_compared();
    result_.changes = change_log_difference(a_.changes, b_.changes, last_compared());
    result_.a.changes = changes_in_words(a_.changes, last_compared());
    result_.b.changes = changes_in_words(b_.changes, last_compared());
    if (result_.difference) describe(*result_.difference);
    return std::move(result_);
  }

 private:
  void consider(std::optional<Difference> candidate) {
    if (candidate && (!result_.difference || earlier(*candidate, *result_.difference)))
      result_.difference = std::move(candidate);
  }
  // Returns true if a difference at this step would precede the difference found so far.
  bool of_interest(Step step) const { return !result_.difference || step <= result_.difference->step; }

  bool both_recorded() const { return a_.fingerprints && b_.fingerprints; }

  void search_steps() {
    const CommonSteps common = common_steps(a_.metrics, b_.metrics);
    result_.steps = common.count;
    result_.first = common.first;
    result_.last = common.last;
    if (common.count > 0) {
      const size_t ests_a = a_.metrics.steps.front().est_losses.size();
      const size_t ests_b = b_.metrics.steps.front().est_losses.size();
      result_.ests = static_cast<int64_t>(std::min(ests_a, ests_b));
      if (ests_a != ests_b)
        consider(Difference{common.first,
                            DifferenceKind::tensors,
                            {},
                            {},
                            {},
                            {fmt::format("A has {} ESTs, B has {}", ests_a, ests_b)}});
      consider(first_loss_difference(a_.metrics, b_.metrics));
    }
    if (both_recorded()) search_records();
  }

  void search_records() {
    if (a_.fingerprints->size() == 0 || b_.fingerprints->size() == 0) return;
    const std::vector<std::string>&names_a = a_.fingerprints->names(), &names_b = b_.fingerprints->names();
    if (names_a != names_b) {
      const Step first = std::max(a_.fingerprints->step(0), b_.fingerprints->step(0));
      consider(Difference{first, DifferenceKind::tensors, {}, {}, {}, names_of_one_only(names_a, names_b)});
      return;
    }
    result_.states = common_steps(*a_.fingerprints, *b_.fingerprints);
    if (result_.states.count > 0) result_.digests = static_cast<int64_t>(names_a.size());
    consider(first_record_difference(*a_.fingerprints, *b_.fingerprints));
  }

  // Pairs of checkpoints of the same step, or the two given checkpoints.
  std::vector<Pair> checkpoint_pairs() const {
    std::vector<Pair> pairs;
    if (!a_.is_run && !b_.is_run) {
      pairs.emplace_back(a_.checkpoints.begin()->first, b_.checkpoints.begin()->first);
      return pairs;
    }
    for (const auto& [step, path] : a_.checkpoints)
      if (b_.checkpoints.contains(step)) pairs.emplace_back(step, step);
    return pairs;
  }

  void search_checkpoints() {
    for (const auto& [step, step_of_b] : checkpoint_pairs()) {
      if (!of_interest(step)) return;
      const auto a = open_checkpoint(a_, step), b = open_checkpoint(b_, step_of_b);
      if (!a || !b) continue;
      compared_ = std::max(compared_, std::optional(step));
      std::optional<Difference> found = compare_pair(*a, *b);
      if (found)
        consider(std::move(found));
      else
        result_.checkpoints.push_back(step);
    }
  }

  std::optional<Difference> compare_pair(const CheckpointFile& a, const CheckpointFile& b) {
    Difference difference{a.meta().step, DifferenceKind::checkpoint, {}, {}, {}, layout_differences(a, b)};
    if (!difference.remarks.empty()) {
      difference.evidence = DifferenceKind::tensors;
      return difference;
    }
    difference.remarks = attribute_differences(a.meta(), b.meta());
    difference.tensors = tensor_differences(a, b, present_);
    if (difference.tensors.empty() && difference.remarks.empty()) return std::nullopt;
    add_damage("A", a_, a, difference);
    add_damage("B", b_, b, difference);
    return difference;
  }

  // Adds the damage of a checkpoint without a record for comparison.
  void add_damage(const char* side, const Subject& subject, const CheckpointFile& file, Difference& difference) {
    if (has_record(subject, file.meta().step) || present_.damaged(file).empty()) return;
    difference.remarks.push_back(fmt::format("the checkpoint of {} is damaged: {}", side, change_of(file)));
  }

  void search_own_records() {
    search_own_records("A", a_, "B", b_, result_.a.recorded);
    search_own_records("B", b_, "A", a_, result_.b.recorded);
  }

  // Compares each checkpoint of `side` with the side's record or, without a record, with the other side's record.
  void search_own_records(const char* side, const Subject& subject, const char* other_side, const Subject& other,
                          std::vector<Step>& as_recorded) {
    for (const auto& [step, path] : subject.checkpoints) {
      if (!of_interest(step)) continue;
      const bool own = has_record(subject, step);
      if (!own && !has_record(other, step)) continue;
      const auto file = open_checkpoint(subject, step);
      if (!file) continue;
      const record::FingerprintReader& fingerprints = own ? *subject.fingerprints : *other.fingerprints;
      std::vector<std::string> names = unlike_record(*file, present_, fingerprints, *fingerprints.find(step));
      if (!own) compared_ = std::max(compared_, std::optional(step));
      if (names.empty()) {
        as_recorded.push_back(step);
        continue;
      }
      const std::string remark = fmt::format("the checkpoint of {} is not the state that {} recorded at step {}: {}",
                                             side, own ? side : other_side, step, change_of(*file));
      consider(Difference{step, DifferenceKind::own_record, {}, std::move(names), {}, {}});
      if (result_.difference->step == step) result_.difference->remarks.push_back(remark);
    }
  }

  static bool has_record(const Subject& subject, Step step) {
    return subject.fingerprints && subject.fingerprints->find(step).has_value();
  }

  std::string change_of(const CheckpointFile& file) {
    const std::vector<std::string> damaged = present_.damaged(file);
    if (damaged.empty()) return "it was changed and resealed, or written incorrectly";
    return fmt::format("{} of its tensors changed in the file after it was written, first {}", damaged.size(),
                       damaged.front());
  }

  void require_something_compared() const {
    if (result_.steps > 0 || result_.states.count > 0 || result_.difference) return;
    // An equal start says nothing about recorded steps of one side.
    const bool recorded_steps = result_.a.steps > 0 || result_.b.steps > 0;
    const bool only_the_start = a_.is_run && b_.is_run && recorded_steps && compared_ == Step(0);
    if (compared_ && !only_the_start) return;
    throw Error::make(Fault::mismatch, "{} and {} have no step in common to compare", a_.path, b_.path)
        .advise("compare runs that overlap, or checkpoints of the same step");
  }

  Step last_compared() const {
    Step last = std::max(result_.last, result_.states.last);
    for (const std::vector<Step>* compared : {&result_.checkpoints, &result_.a.recorded, &result_.b.recorded})
      if (!compared->empty()) last = std::max(last, compared->back());
    return result_.difference ? std::max(last, result_.difference->step) : last;
  }

  // Adds further information about the state with the difference.
  void describe(Difference& difference) {
    result_.a.processor = processor_at(a_, difference.step);
    result_.b.processor = processor_at(b_, difference.step);
    for (const Step step : result_.checkpoints)
      if (step < difference.step) result_.replay_from = step;
    if (difference.evidence == DifferenceKind::tensors) return;
    add_digests(difference);
    if (!difference.tensors.empty()) return;
    const auto of_a = open_checkpoint(a_, difference.step), of_b = open_checkpoint(b_, difference.step);
    if (of_a && of_b) difference.tensors = tensor_differences(*of_a, *of_b, present_);
  }

  void add_digests(Difference& difference) const {
    if (!difference.digests.empty() || result_.digests == 0) return;
    const auto of_a = a_.fingerprints->find(difference.step), of_b = b_.fingerprints->find(difference.step);
    if (!of_a || !of_b) return;
    const auto digests_a = a_.fingerprints->digests(*of_a), digests_b = b_.fingerprints->digests(*of_b);
    for (size_t i = 0; i < digests_a.size(); ++i)
      if (digests_a[i] != digests_b[i]) difference.digests.push_back(a_.fingerprints->names()[i]);
  }

  const Subject &a_, &b_;
  Comparison result_;
  PresentDigests present_;
  std::optional<Step> compared_;  // the last step whose checkpoint was compared with the other side
};

}  // namespace

Comparison compare(const Subject& a, const Subject& b) { return Search(a, b).run(); }

Comparison compare(const std::string& a, const std::string& b) { return compare(open_subject(a), open_subject(b)); }

}  // namespace estrain::verify
