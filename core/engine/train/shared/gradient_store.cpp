#include "core/engine/train/shared/gradient_store.h"

#include <array>

#include "core/base/error.h"

namespace estrain::train {
namespace {

// The courier leaves the sum over all hosts in the place of the first worker's first partial sum
// (core/hosts/step/step_exchange.h).
comm::FinishPlan sum_of_hosts() { return {.sources = {{WorkerRank(0), 0}}, .program = {0}, .depth = 1}; }

}  // namespace

GradientStore::GradientStore(const ModelPlaces& places, const GradientSum& sum, comm::JobMemory& memory,
                             const StageOrder& order, RowMarks& marks)
    : places_(places),
      memory_(memory),
      marks_(marks),
      fold_(sum.fold(order.own())),
      finish_(order.beyond ? sum_of_hosts() : sum.finish(order.ranges)),
      factor_(sum.factor()) {
  if (finish_.depth > static_cast<int>(comm::kDeepestStack)) throw Error(Fault::bug, "reduction tree too deep");
  const std::vector<int64_t> first_slot = comm::first_slots(sum.order, sum.ests, order.ranges);
  slots_ = first_slot.back();
  own_first_slot_ = first_slot[static_cast<size_t>(order.worker.value)];
  for (const comm::FinishPlan::Source& source : finish_.sources) {
    source_slots_.push_back(first_slot[static_cast<size_t>(source.worker.value)] + source.slot);
  }
}

est::Partial GradientStore::partial(int64_t slot, size_t parameter, size_t begin) const {
  return {memory_.gradients()[slot].values + places_.gradient_offset(parameter) + begin,
          presence(slot, parameter) != comm::kAbsent};
}

est::Partial GradientStore::partial(int64_t slot, size_t parameter, size_t begin, size_t n, float* scratch) const {
  if (presence(slot, parameter) != comm::kByRows) return partial(slot, parameter, begin);
  return {rows_place(slot, parameter).read(begin, n, scratch), true};
}

RowsPlace GradientStore::rows_place(int64_t slot, size_t parameter) const {
  const size_t elements = places_.elements(parameter);
  return {memory_.gradients()[slot].values + places_.gradient_offset(parameter), elements,
          elements / places_.table(parameter).rows};
}

void GradientStore::widen(int64_t slot, size_t parameter) const {
  if (presence(slot, parameter) != comm::kByRows) return;
  rows_place(slot, parameter).widen();
  presence(slot, parameter) = comm::kWhole;
}

bool GradientStore::has_rows(size_t arrival, size_t parameter) const {
  const auto [depth, merges] = fold_.arrivals[arrival];
  for (int i = 1; i <= merges; ++i) {
    if (presence(own_first_slot_ + depth - i, parameter) == comm::kByRows) return true;
  }
  return false;
}

void GradientStore::fold(size_t arrival, size_t parameter, const float* gradient) {
  const auto [depth, merges] = fold_.arrivals[arrival];
  const int64_t target = own_first_slot_ + depth - merges;
  if (gradient != nullptr) marks_.mark_all(parameter);
  std::array<est::Partial, comm::kDeepestStack> left;
  for (int i = 0; i < merges; ++i) {
    widen(target + i, parameter);
    left[static_cast<size_t>(i)] = partial(target + i, parameter, 0);
  }
  float* out = memory_.gradients()[target].values + places_.gradient_offset(parameter);
  const bool present =
      est::fold({left.data(), static_cast<size_t>(merges)}, gradient, factor_, out, places_.elements(parameter));
  presence(target, parameter) = present ? comm::kWhole : comm::kAbsent;
}

void GradientStore::fold_table(size_t arrival, size_t parameter, const GradientFactors& gradient,
                               at::IntArrayRef sizes) {
  const auto [depth, merges] = fold_.arrivals[arrival];
  for (int i = 1; i <= merges; ++i) {
    if (presence(own_first_slot_ + depth - i, parameter) == comm::kWhole)
      return fold(arrival, parameter, gradient_of(gradient, sizes).const_data_ptr<float>());
  }
  rows_of_gradient(gradient, static_cast<size_t>(sizes[1]), own_rows_);
  marks_.mark(parameter, own_rows_.rows);
  fold_by_rows(arrival, parameter, own_rows_.view());
}

// An absent sum counts as zeros.
void GradientStore::fold_by_rows(size_t arrival, size_t parameter, RowsView gradient) {
  const auto [depth, merges] = fold_.arrivals[arrival];
  const int64_t target = own_first_slot_ + depth - merges;
  std::array<RowsView, comm::kDeepestStack> left;
  for (int i = 0; i < merges; ++i) {
    if (presence(target + i, parameter) == comm::kByRows)
      left[static_cast<size_t>(i)] = rows_place(target + i, parameter).view();
  }
  RowsPlace place = rows_place(target, parameter);
  const size_t width = places_.elements(parameter) / places_.table(parameter).rows;
  fold_rows({left.data(), static_cast<size_t>(merges)}, gradient, factor_, width, folded_rows_);
  const RowsView sum = folded_rows_.view();
  const bool fits = place.fits(sum.rows.size());
  fits ? place.write(sum) : place.write_whole(sum);
  presence(target, parameter) = fits ? comm::kByRows : comm::kWhole;
}

const float* GradientStore::sum_with_last(size_t parameter, const float* last, size_t begin, size_t n,
                                          float* scratch) const {
  const auto [depth, merges] = fold_.arrivals.back();
  if (merges == 0 && factor_ == 1.0f) return last == nullptr ? nullptr : last + begin;
  std::array<est::Partial, comm::kDeepestStack> left;
  for (int i = 0; i < merges; ++i)
    left[static_cast<size_t>(i)] = partial(own_first_slot_ + depth - merges + i, parameter, begin);
  const float* gradient = last == nullptr ? nullptr : last + begin;
  return est::fold({left.data(), static_cast<size_t>(merges)}, gradient, factor_, scratch, n) ? scratch : nullptr;
}

// Runs the finish program on a stack of partial sums. Level i of the stack uses part i of the scratch for its results,
// and for the elements of a source by rows. Whole sources are read in place.
const float* GradientStore::sum(size_t parameter, size_t begin, size_t n, float* scratch) const {
  std::array<est::Partial, comm::kDeepestStack> stack;
  size_t height = 0;
  for (int instruction : finish_.program) {
    if (instruction >= 0) {
      stack[height] =
          partial(source_slots_[static_cast<size_t>(instruction)], parameter, begin, n, scratch + height * n);
      ++height;
      continue;
    }
    --height;
    float* out = scratch + (height - 1) * n;
    const bool present = est::add_partials(stack[height - 1], stack[height], out, n);
    stack[height - 1] = {out, present};
  }
  return stack[0].present ? stack[0].values : nullptr;
}

void GradientStore::begin_whole_sum(size_t parameter) const { widen(source_slots_[0], parameter); }

float* GradientStore::sum_target(size_t parameter) const {
  return memory_.gradients()[source_slots_[0]].values + places_.gradient_offset(parameter);
}

}  // namespace estrain::train
