#include "core/hosts/step/own_partials.h"

#include <algorithm>
#include <utility>

namespace estrain::hosts {
namespace {

// The stack left by the program, each entry as the list of its sources. An entry lies in the place of its first source.
std::vector<std::vector<size_t>> sums_left_by(const comm::FinishPlan& plan) {
  std::vector<std::vector<size_t>> stack;
  for (const int instruction : plan.program) {
    if (instruction >= 0) {
      stack.push_back({static_cast<size_t>(instruction)});
      continue;
    }
    const std::vector<size_t> right = std::move(stack.back());
    stack.pop_back();
    stack.back().insert(stack.back().end(), right.begin(), right.end());
  }
  return stack;
}

// The slot of each source. Slots are numbered as the workers number them: core/engine/train/shared/gradient_store.h.
std::vector<int64_t> slots_of(const comm::FinishPlan& fold, const HostPlan& plan) {
  const std::vector<int64_t> first_slot = comm::first_slots(comm::SumOrder::tree, plan.ests(), plan.here().workers);
  std::vector<int64_t> slots_of_sources;
  for (const comm::FinishPlan::Source& source : fold.sources)
    slots_of_sources.push_back(first_slot[static_cast<size_t>(source.worker.value)] + source.slot);
  return slots_of_sources;
}

}  // namespace

OwnPartials::OwnPartials(comm::JobMemory& memory, const HostPlan& plan, const SharedParts& parts)
    : memory_(memory),
      plan_(plan),
      parts_(parts),
      fold_(comm::plan_finish(comm::SumOrder::tree, plan.ests(), plan.here().workers)),
      fold_slots_(slots_of(fold_, plan)),
      present_(fold_slots_.size(), std::vector<uint8_t>(parts.parameters().size())) {
  for (std::vector<size_t>& sources : sums_left_by(fold_)) {
    const int64_t slot = fold_slots_[sources.front()];
    passed_on_.push_back({slot, std::move(sources), std::vector<uint8_t>(parts.parameters().size())});
  }
}

bool OwnPartials::is_all_folded() const {
  return memory_.sums().folded_by_all(plan_.here().workers.size()) == parts_.parameters().size();
}

void OwnPartials::look() {
  const size_t parameters = parts_.parameters().size(), end = parameters - ready_;
  ready_ = std::min<size_t>(memory_.sums().folded_by_all(plan_.here().workers.size()), parameters);
  const size_t begin = parameters - ready_;
  for (size_t source = 0; source < fold_slots_.size(); ++source) {
    const uint8_t* flags = memory_.gradients()[fold_slots_[source]].presence;
    for (size_t i = begin; i < end; ++i) present_[source][i] = flags[i] != 0 ? 1 : 0;
  }
  for (PassedOn& sum : passed_on_) {
    for (size_t i = begin; i < end; ++i)
      sum.present[i] =
          std::ranges::any_of(sum.sources, [&](size_t source) { return present_[source][i] != 0; }) ? 1 : 0;
  }
}

void OwnPartials::fold(const Piece& piece) {
  if (fold_slots_.size() == 1) return;
  std::vector<PieceSource> sources;
  for (size_t source = 0; source < fold_slots_.size(); ++source)
    sources.push_back({memory_.gradients()[fold_slots_[source]].values + piece.floats.begin,
                       present_[source].data() + piece.first_parameter});
  sum_in_place(fold_, sources, piece, parts_.parameters());
}

PieceSource OwnPartials::row(size_t row, const Piece& piece) const {
  const PassedOn& sum = passed_on_[row];
  return {memory_.gradients()[sum.slot].values + piece.floats.begin, sum.present.data() + piece.first_parameter};
}

}  // namespace estrain::hosts
