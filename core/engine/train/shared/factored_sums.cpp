#include "core/engine/train/shared/factored_sums.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>
#include <utility>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/engine/est/fold.h"
#include "core/engine/train/shared/factor_offers.h"
#include "core/state/comm/meetings/bell.h"

namespace estrain::train {

FactoredSums::FactoredSums(Workplace& place, const StageOrder& order, bool may_cut, RowMarks& marks)
    : place_(place),
      memory_(place.memory),
      pulse_(place.memory.pulse(order.rank())),
      multiplied_(place.memory.meetings().multiplied(), place.memory, order),
      marks_(marks),
      may_cut_(may_cut),
      own_(order.own()),
      worker_(order.worker),
      first_step_(place.memory.commit().trained()),
      factor_(place.job.gradient_sum().factor()),
      candidates_(factor_candidates(place.job)),
      rows_(place.job.gradient_sum().fold(place.job.places().ests.all()), factor_),
      seen_(place.job.places().model.num_parameters()) {
  plan(order);
}

// The host's workers have their ranges; each EST elsewhere is a range of its own.
void FactoredSums::plan(const StageOrder& order) {
  const GradientSum gradient_sum = place_.job.gradient_sum();
  std::vector<EstRange> ranges;
  const auto add_others = [&](int64_t begin, int64_t end) {
    for (int64_t rank = begin; rank < end; ++rank) ranges.push_back({VirtualRank(rank), VirtualRank(rank + 1)});
  };
  add_others(0, order.ranges.front().begin.value);
  const size_t first_own = ranges.size();
  ranges.insert(ranges.end(), order.ranges.begin(), order.ranges.end());
  add_others(order.ranges.back().end.value, memory_.ests());

  const std::vector<int64_t> first_slots = comm::first_slots(gradient_sum.order, gradient_sum.ests, order.ranges);
  finish_ = gradient_sum.finish(ranges);
  for (const comm::FinishPlan::Source& source : finish_.sources) {
    const auto range = static_cast<size_t>(source.worker.value);
    if (range < first_own || range >= first_own + order.ranges.size()) {
      sources_.push_back({std::nullopt, ranges[range].begin});
    } else {
      sources_.push_back({first_slots[range - first_own] + source.slot, ranges[range].begin});
    }
  }
}

comm::FactorPlaces FactoredSums::places_of(size_t parameter) const {
  const ModelPlaces& model = place_.job.places().model;
  return {memory_, model.gradient_offset(parameter), model.elements(parameter)};
}

std::vector<torch::Tensor> FactoredSums::tensors(const std::vector<size_t>& parameters) const {
  std::vector<torch::Tensor> tensors;
  for (const size_t i : parameters) tensors.push_back(place_.job.network().parameters()[i]);
  return tensors;
}

void FactoredSums::begin_step(Step step) {
  const int64_t steps = step.value - first_step_.value;  // of the stage, before this one
  is_offered_ = worker_ == WorkerRank(0) && steps + 1 == comm::kStepsBeforeFactors;
  if (is_offered_) watch_.emplace(tensors(candidates_));
  if (steps == comm::kStepsBeforeFactors) take_choice();
  written_.assign(static_cast<size_t>(own_.size()) * chosen_.size(), false);
  written_in_order_ = 0;
}

void FactoredSums::take_choice() {
  const uint8_t* const chosen = comm::chosen_factors(memory_);
  for (size_t i = seen_.size(); i-- > 0;) {
    if (chosen[i] != 0) chosen_.push_back({i, places_of(i).head(rank_of(0)).bytes});
  }
  std::vector<size_t> parameters;
  std::ranges::transform(chosen_, std::back_inserter(parameters), &Chosen::parameter);
  watch_.emplace(tensors(parameters));
  by_factors_.assign(seen_.size(), false);
}

bool FactoredSums::has_chosen(size_t parameter) const {
  return std::ranges::find(chosen_, parameter, &Chosen::parameter) != chosen_.end();
}

FactorWatch::Cuts FactoredSums::watch(size_t arrival, const torch::Tensor& loss,
                                      const std::function<void(size_t parameter)>& take) {
  FactorWatch::Cuts cuts;
  if (makes_offers(arrival)) {
    watch_->watch(loss, [this](size_t i, const GradientFactors& factors) { seen_[candidates_[i]] = factors; });
    return cuts;
  }
  if (chosen_.empty()) return cuts;
  std::fill(by_factors_.begin(), by_factors_.end(), false);
  for (FactorWatch::Use& use : watch_->uses(loss)) {
    const bool is_cut =
        may_cut_ && !place_.hooks.has_witness() && takes_rows(use.factors, sizes(chosen_[use.parameter].parameter)[0]);
    if (is_cut) cuts.cut(use);
    FactorWatch::see(std::move(use), [this, arrival, is_cut, take](size_t i, const GradientFactors& factors) {
      write(arrival, i, factors);
      if (is_cut) take(chosen_[i].parameter);
    });
  }
  return cuts;
}

void FactoredSums::write(size_t arrival, size_t chosen, const GradientFactors& factors) {
  const auto& [parameter, bytes] = chosen_[chosen];
  const bool fit = are_storable(factors, sizes(parameter)) && factors.rows() > 0 &&
                   bytes_of_factors(factors.form, factors.rows(), sizes(parameter)) <= bytes;
  if (!fit) return;  // end_pass() throws
  put_factors(places_of(parameter), rank_of(arrival), factors);
  by_factors_[parameter] = takes_rows(factors, sizes(parameter)[0]);
  written_[arrival * chosen_.size() + chosen] = true;
  const uint32_t before = written_in_order_;
  while (written_in_order_ < written_.size() && written_[written_in_order_]) ++written_in_order_;
  if (written_in_order_ == before) return;
  memory_.sums().note_factors(worker_, written_in_order_);
  comm::ring(place_.courier);
}

// A head with bytes is an offer. It gets them only if the gradient computed from the factors has the bits of the
// backward pass, or if the factors are too large to be chosen.
void FactoredSums::offer(size_t parameter, const float* gradient) {
  const GradientFactors factors = std::exchange(seen_[parameter], {});
  if (factors.form == comm::FactorForm::none || gradient == nullptr || !are_storable(factors, sizes(parameter))) return;
  const VirtualRank rank = rank_of(0);
  const int64_t rows = rows_of_full_batch(place_.job, memory_.commit().trained(), rank, factors.rows());
  const size_t bytes = bytes_of_factors(factors.form, rows, sizes(parameter));
  const comm::FactorPlaces places = places_of(parameter);
  if (rows == 0 || bytes > std::numeric_limits<uint32_t>::max()) return;
  comm::FactorHead& head = places.head(rank);
  head.bytes = static_cast<uint32_t>(bytes);
  if (bytes > places.capacity()) return;
  put_factors(places, rank, factors);
  const auto seconds =
      seconds_of_product(factors_in(places, rank, sizes(parameter)), sizes(parameter), gradient, factor_);
  if (!seconds) return;
  head.rows = rows;
  head.bytes = static_cast<uint32_t>(bytes);
  // A short mini-batch takes less time than a full one.
  head.seconds = static_cast<float>(*seconds * static_cast<double>(rows) / static_cast<double>(factors.rows()));
}

void FactoredSums::end_pass(size_t arrival) {
  if (written_in_order_ >= (arrival + 1) * chosen_.size()) return;
  const size_t parameter = chosen_[written_in_order_ % chosen_.size()].parameter;
  throw Error::make(Fault::infeasible,
                    "the gradient of {} has no factors in this mini-batch, or larger ones than before",
                    place_.job.manifest().digest_names[parameter])
      .advise("let the hosts send such gradients as sums: network.factors = \"never\"");
}

bool FactoredSums::sum_all() {
  if (chosen_.empty()) return true;
  if (!waiting(pulse_, comm::Activity::meeting, [this] { return memory_.sums().wait_factors(); })) return false;
  for (uint32_t next; (next = memory_.meetings().claim_factor()) < chosen_.size();) {
    const size_t parameter = chosen_[next].parameter;
    is_by_rows(parameter) ? sum_rows(parameter) : sum(parameter);
    pulse_.beat(comm::Activity::computing, monotonic_ns());
  }
  return multiplied_.meet();
}

bool FactoredSums::is_by_rows(size_t parameter) const {
  const auto takes = [places = places_of(parameter)](int64_t rank) {
    const comm::FactorHead& head = places.head(VirtualRank(rank));
    return head.form == comm::FactorForm::embedding && head.scales_by_frequency == 0;
  };
  int64_t count = 0;
  for (int64_t rank = 0; rank < memory_.ests(); ++rank) count += takes(rank) ? 1 : 0;
  if (count != 0 && count != memory_.ests()) {
    throw Error::make(Fault::infeasible, "the gradient of {} has factors of another form in some mini-batches",
                      place_.job.manifest().digest_names[parameter])
        .advise("let the hosts send such gradients as sums: network.factors = \"never\"");
  }
  return count != 0;
}

void FactoredSums::sum_rows(size_t parameter) {
  std::vector<GradientFactors> of_ests;
  for (int64_t rank = 0; rank < memory_.ests(); ++rank)
    of_ests.push_back(factors_in(places_of(parameter), VirtualRank(rank), sizes(parameter)));
  const auto width = static_cast<size_t>(sizes(parameter)[1]);
  const RowsView sum = rows_.sum(of_ests, width);
  marks_.mark(parameter, sum.rows);
  const ModelPlaces& model = place_.job.places().model;
  const comm::GradientSlot slot = memory_.gradients()[0];
  RowsPlace place(slot.values + model.gradient_offset(parameter), model.elements(parameter), width);
  const bool by_rows = model.table(parameter).rows > 0 && place.fits(sum.rows.size());
  by_rows ? place.write(sum) : place.write_whole(sum);
  slot.presence[parameter] = by_rows ? comm::kByRows : comm::kWhole;
}

void FactoredSums::sum(size_t parameter) {
  const ModelPlaces& model = place_.job.places().model;
  const size_t offset = model.gradient_offset(parameter), n = model.elements(parameter);
  struct Item {
    float* values;
    bool present;
    torch::Tensor memory;  // of a gradient; undefined: a slot
  };
  std::vector<Item> stack;
  for (size_t at = 0; at < finish_.program.size(); ++at) {
    if (finish_.program[at] < 0) {
      const Item right = std::move(stack.back());
      stack.pop_back();
      Item& left = stack.back();
      left.present = comm::add_partials({left.values, left.present}, {right.values, right.present}, left.values, n);
      continue;
    }
    const Source& source = sources_[static_cast<size_t>(finish_.program[at])];
    if (source.slot) {
      const comm::GradientSlot slot = memory_.gradients()[*source.slot];
      stack.push_back({slot.values + offset, slot.presence[parameter] != 0, {}});
      continue;
    }
    // All additions that the gradient completes are one pass over memory.
    size_t merges = 0;
    while (at + 1 < finish_.program.size() && finish_.program[at + 1] < 0) ++merges, ++at;
    const torch::Tensor gradient =
        gradient_of(factors_in(places_of(parameter), source.rank, sizes(parameter)), sizes(parameter));
    float* const values = gradient.mutable_data_ptr<float>();
    std::vector<comm::Partial> left;
    for (size_t i = stack.size() - merges; i < stack.size(); ++i) left.push_back({stack[i].values, stack[i].present});
    if (merges == 0) stack.push_back({values, false, gradient});
    Item& result = stack[stack.size() - std::max<size_t>(merges, 1)];
    result.present = est::fold(left, values, factor_, result.values, n);
    if (merges > 1) stack.resize(stack.size() - (merges - 1));
  }
  const comm::GradientSlot sum = memory_.gradients()[0];
  if (stack[0].present && stack[0].values != sum.values + offset)
    std::memcpy(sum.values + offset, stack[0].values, n * sizeof(float));
  sum.presence[parameter] = stack[0].present ? 1 : 0;
}

}  // namespace estrain::train
