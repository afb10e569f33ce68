#include "core/engine/train/resident/exchanged_update.h"

#include <algorithm>

#include "core/base/clock.h"
#include "kernels/execution.h"
#include "kernels/portable/calls/device_kernels.h"

namespace estrain::train {
namespace {

uint32_t worker_of_est_0(const StageOrder& order) {
  const auto holds = [](const EstRange& range) { return range.contains(VirtualRank(0)); };
  return static_cast<uint32_t>(std::ranges::find_if(order.ranges, holds) - order.ranges.begin());
}

}  // namespace

PassedSums::PassedSums(const GradientSum& sum, const StageOrder& order, const OwnShares& shares, ResidentSums& sums,
                       comm::JobMemory& memory, device::ComputeDevice& device)
    : shares_(shares), sums_(sums), memory_(memory), device_(device), tree_(sum.finish(order.ranges)) {
  std::vector<int64_t> first_row;
  int64_t rows = 0;
  for (const EstRange& range : order.ranges) {
    first_row.push_back(rows);
    rows += sum.fold(range).passed_on;
  }
  size_t others = 0;
  for (const comm::FinishPlan::Source& source : tree_.sources) {
    const auto worker = static_cast<uint32_t>(source.worker.value);
    const bool own = worker == shares_.worker();
    sources_.push_back({worker, first_row[worker] + source.slot, own ? static_cast<size_t>(source.slot) : others++});
  }
  totals_ = new_floats(shares_.packed_floats(), device);
  received_ = new_floats(others * shares_.largest_share(), device);
  if (!sums_.has_slots()) scaled_ = new_floats(shares_.largest_bucket(), device);
  load_kernels();
}

// Loading a kernel waits for all work under way, so for transfers of other workers. Loads what finish() and
// scale_gradients() run between transfers.
void PassedSums::load_kernels() const {
  const kernels::DeviceQueue& queue = *device_.queue();
  const at::Tensor one = new_floats(1, device_);
  auto* const value = one.mutable_data_ptr<float>();
  queue.updates->add(value, value, value, 1, queue);
  const kernels::FoldPiece piece = {value, 0, 1};
  queue.updates->fold_scaled(value, {}, 1, {&piece, 1}, queue);
}

void PassedSums::begin_step() { gradients_.assign(shares_.parameters(), {}); }

void PassedSums::take(size_t parameter, const at::Tensor& gradient) {
  if (!sums_.has_slots()) gradients_[parameter] = gradient;
  for (const PassedSum& source : sources_) {
    if (!is_own(source)) continue;
    const auto slot = static_cast<int>(source.place);
    const bool present = sums_.has_slots() ? sums_.present(slot, parameter) : gradient.defined();
    memory_.gradients()[source.row].presence[parameter] = present ? 1 : 0;
    if (!present && sums_.has_slots()) sums_.clear(slot, parameter);
  }
}

bool PassedSums::reached(size_t parameter) const {
  return std::ranges::any_of(
      sources_, [&](const PassedSum& source) { return memory_.gradients()[source.row].presence[parameter] != 0; });
}

float* PassedSums::own_sum(const PassedSum& sum, size_t bucket, size_t offset) const {
  if (sums_.has_slots()) return sums_.values(static_cast<int>(sum.place)) + offset;
  return scaled_.mutable_data_ptr<float>() + (offset - shares_.bucket(bucket).begin);
}

float* PassedSums::own_part(const PassedSum& sum, size_t bucket) const {
  if (is_own(sum)) return own_sum(sum, bucket, shares_.own(bucket).begin);
  return received_.mutable_data_ptr<float>() + sum.place * shares_.largest_share();
}

// Writes the bucket's sums, and forgets gradients without parts in later buckets.
void PassedSums::scale_gradients(size_t bucket) {
  const BucketRange range = shares_.bucket(bucket);
  float* const to = own_sum(sources_.front(), bucket, range.begin);
  std::vector<kernels::FoldPiece> pieces;
  for (const ParameterPiece& part : shares_.parts(bucket)) {
    const at::Tensor& gradient = gradients_[part.parameter];
    const size_t at = shares_.offset(part) - range.begin;
    if (gradient.defined()) {
      pieces.push_back({gradient.const_data_ptr<float>() + part.begin, at, part.size});
    } else {
      scaled_.narrow(0, static_cast<int64_t>(at), static_cast<int64_t>(part.size)).zero_();
    }
  }
  device_.queue()->updates->fold_scaled(to, {}, sums_.factor(), pieces, *device_.queue());
  for (const ParameterPiece& part : shares_.parts(bucket))
    if (shares_.buckets_of(part.parameter).back() == bucket) gradients_[part.parameter].reset();
}

void PassedSums::pass_on(size_t bucket, std::vector<device::Transfer>& sends, std::vector<device::Transfer>& receives) {
  if (!sums_.has_slots()) scale_gradients(bucket);
  const size_t own_bytes = shares_.own(bucket).size() * sizeof(float);
  for (const PassedSum& source : sources_) {
    if (!is_own(source)) {
      if (own_bytes > 0) receives.push_back({source.worker, own_part(source, bucket), own_bytes});
      continue;
    }
    for (uint32_t peer = 0; peer < shares_.workers(); ++peer) {
      const BucketRange theirs = shares_.share(bucket, peer);
      if (peer != shares_.worker() && theirs.size() > 0)
        sends.push_back({peer, own_sum(source, bucket, theirs.begin), theirs.size() * sizeof(float)});
    }
  }
}

void PassedSums::finish(size_t bucket) {
  const size_t size = shares_.own(bucket).size();
  if (size == 0) return;
  const kernels::DeviceQueue& queue = *device_.queue();
  std::vector<float*> stack;
  for (size_t at = 0; at < tree_.program.size(); ++at) {
    const int instruction = tree_.program[at];
    if (instruction >= 0) {
      stack.push_back(own_part(sources_[static_cast<size_t>(instruction)], bucket));
      continue;
    }
    const float* const right = stack.back();
    stack.pop_back();
    const float* const left = stack.back();
    if (at + 1 == tree_.program.size()) stack.back() = total(bucket);
    queue.updates->add(stack.back(), left, right, size, queue);
  }
}

ExchangedUpdate::ExchangedUpdate(Workplace& place, const StageOrder& order)
    : ResidentCarrier(place, order),
      own_(order.own()),
      keeper_(worker_of_est_0(order)),
      shares_(job_.places().model, static_cast<uint32_t>(order.worker.value), order.workers()),
      passed_(job_.gradient_sum(), order, shares_, sums_, place.memory, place.device),
      pulse_(place.memory.pulse(order.rank())),
      gathered_(place.memory.meetings().gathered(), place.memory, order) {
  tick_ = new_floats(1, place.device);
  if (!clips_) return;
  clipped_ = groups_of(job_.places().model, shares_.largest_bucket());
  whole_ = new_floats(largest_range(job_.places().model, clipped_), place.device);
}

bool ExchangedUpdate::begin_step(Step step) {
  awaited_.clear();
  for (size_t b = 0; b < shares_.buckets(); ++b) awaited_.push_back(shares_.parts(b).size());
  next_bucket_ = 0;
  stalled_ns_ = 0;
  passed_.begin_step();
  return ResidentCarrier::begin_step(step);
}

void ExchangedUpdate::fold(size_t arrival, size_t parameter, const torch::Tensor& gradient) {
  if (sums_.has_slots()) sums_.fold(arrival, parameter, gradient);
  if (arrival + 1 < sums_.ests()) return;
  passed_.take(parameter, gradient);
  for (const size_t bucket : shares_.buckets_of(parameter)) --awaited_[bucket];
  // All workers send in one order, whatever the order of the workers' gradients.
  if (next_bucket_ < awaited_.size() && awaited_[next_bucket_] == 0) sums_.flush();
  while (next_bucket_ < awaited_.size() && awaited_[next_bucket_] == 0) send_sums(next_bucket_++);
}

void ExchangedUpdate::send_sums(size_t bucket) {
  if (bucket > 0) finish_during_pass(bucket - 1);
  sends_.clear();
  receives_.clear();
  passed_.pass_on(bucket, sends_, receives_);
  place_.exchange->transfer(sends_, receives_);
}

// Notes for how long the device waited for other workers: such time is no time of the mini-batch. The arrivals of two
// reads tell when the device came to the transfers, and when it went on.
void ExchangedUpdate::finish_during_pass(size_t bucket) {
  place_.device.read(tick_, [this](const float*) { stalled_ns_ -= monotonic_ns(); });
  finish_sums(bucket);
  place_.device.read(tick_, [this](const float*) { stalled_ns_ += monotonic_ns(); });
}

void ExchangedUpdate::finish_sums(size_t bucket) {
  place_.exchange->join();
  passed_.finish(bucket);
}

// Norms are of whole parameters, in the portable order.
const float* ExchangedUpdate::clip_factor() {
  const ModelPlaces& model = job_.places().model;
  for (const std::vector<size_t>& group : clipped_) {
    const BucketRange range = range_of(model, group);
    gather_totals(range, whole_.mutable_data_ptr<float>());
    place_.exchange->join();
    std::vector<ResidentOptimizer::Gradient> gradients;
    for (const size_t i : group) {
      if (passed_.reached(i))
        gradients.push_back({i, whole_.const_data_ptr<float>() + (model.gradient_offset(i) - range.begin)});
    }
    optimizer_.take_norms(gradients);
  }
  return optimizer_.clip_factor();
}

void ExchangedUpdate::gather_totals(const BucketRange& range, float* totals) {
  const kernels::DeviceQueue& queue = *place_.device.queue();
  sends_.clear();
  receives_.clear();
  for (size_t b = 0; b < shares_.buckets(); ++b) {
    for (uint32_t owner = 0; owner < shares_.workers(); ++owner) {
      const BucketRange share = shares_.share(b, owner);
      const size_t begin = std::max(range.begin, share.begin), end = std::min(range.end, share.end);
      if (begin >= end) continue;
      float* const place = totals + (begin - range.begin);
      const size_t bytes = (end - begin) * sizeof(float);
      if (owner != shares_.worker()) {
        receives_.push_back({owner, place, bytes});
        continue;
      }
      float* const own = passed_.total(b) + (begin - share.begin);
      queue.kernels->copy(place, own, static_cast<int64_t>(end - begin), {.device = &queue});
      for (uint32_t peer = 0; peer < shares_.workers(); ++peer)
        if (peer != owner) sends_.push_back({peer, own, bytes});
    }
  }
  place_.exchange->transfer(sends_, receives_);
}

void ExchangedUpdate::share_out(size_t bucket) {
  sends_.clear();
  receives_.clear();
  float* const values = place_.resident->parameters();
  const BucketRange own = shares_.own(bucket);
  for (uint32_t peer = 0; peer < shares_.workers(); ++peer) {
    if (peer == shares_.worker()) continue;
    const BucketRange theirs = shares_.share(bucket, peer);
    if (own.size() > 0) sends_.push_back({peer, values + own.begin, own.size() * sizeof(float)});
    if (theirs.size() > 0) receives_.push_back({peer, values + theirs.begin, theirs.size() * sizeof(float)});
  }
  place_.exchange->transfer(sends_, receives_);
}

void ExchangedUpdate::share_buffers() {
  const size_t bytes = job_.places().model.buffers_bytes();
  if (bytes == 0) return;
  sends_.clear();
  receives_.clear();
  void* const buffers = place_.resident->buffers(step_.next()).mutable_data_ptr();
  if (shares_.worker() != keeper_) receives_.push_back({keeper_, buffers, bytes});
  for (uint32_t peer = 0; peer < shares_.workers() && shares_.worker() == keeper_; ++peer) {
    if (peer != shares_.worker()) sends_.push_back({peer, buffers, bytes});
  }
  place_.exchange->transfer(sends_, receives_);
}

SavedPart ExchangedUpdate::saved_part() const {
  SavedPart part{.ests = own_, .counts = shares_.worker() == keeper_, .of_workers = shares_.workers()};
  for (size_t b = 0; b < shares_.buckets(); ++b) {
    const BucketRange own = shares_.own(b);
    if (own.size() > 0) part.regions.push_back({own.begin * sizeof(float), own.size() * sizeof(float)});
  }
  part.regions.insert(part.regions.end(), place_.resident->slots().begin(), place_.resident->slots().end());
  if (shares_.worker() == keeper_ && job_.places().model.buffers_bytes() > 0)
    part.regions.push_back({job_.places().model.buffers_offset(), job_.places().model.buffers_bytes()});
  return part;
}

int64_t ExchangedUpdate::pass() {
  const int64_t done = monotonic_ns();
  aborted_ = !gathered_.meet();
  const int64_t waited = monotonic_ns() - done;
  if (aborted_) return waited;
  if (shares_.buckets() > 0) finish_sums(shares_.buckets() - 1);
  const float* const factor = clips_ ? clip_factor() : nullptr;
  for (size_t i = 0; i < job_.places().model.num_parameters(); ++i) optimizer_.count(i, passed_.reached(i));
  place_.resident->await_save();
  for (size_t b = 0; b < shares_.buckets(); ++b) {
    const float* const totals = passed_.total(b);
    for (const ParameterPiece& piece : shares_.pieces(b)) {
      const bool reached = passed_.reached(piece.parameter);
      optimizer_.update(piece, reached ? totals + (shares_.offset(piece) - shares_.own(b).begin) : nullptr);
    }
    optimizer_.flush(factor);
    share_out(b);
  }
  share_buffers();
  place_.exchange->join();
  waiting(pulse_, comm::Activity::meeting, [this] {
    place_.device.finish_reads();
    return true;
  });
  optimizer_.read_results();
  return waited + stalled_ns_;
}

bool ExchangedUpdate::finish() {
  if (aborted_) return false;
  return waiting(pulse_, comm::Activity::meeting, [this] {
    place_.device.finish_reads();
    place_.exchange->check();
    return !place_.memory.gate().aborted();
  });
}

}  // namespace estrain::train
