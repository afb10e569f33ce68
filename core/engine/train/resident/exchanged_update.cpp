#include "core/engine/train/resident/exchanged_update.h"

#include <algorithm>

#include "core/base/clock.h"

namespace estrain::train {
namespace {

uint32_t worker_of_est_0(const StageOrder& order) {
  const auto holds = [](const EstRange& range) { return range.contains(VirtualRank(0)); };
  return static_cast<uint32_t>(std::ranges::find_if(order.ranges, holds) - order.ranges.begin());
}

}  // namespace

PassedSums::PassedSums(const GradientSum& sum, const StageOrder& order, const OwnShares& shares, ResidentSums& sums,
                       comm::JobMemory& memory, device::ComputeDevice& device)
    : shares_(shares), sums_(sums), memory_(memory), tree_(sum.finish(order.ranges)) {
  std::vector<int64_t> first_slot;
  int64_t slots = 0;
  for (const EstRange& range : order.ranges) {
    first_slot.push_back(slots);
    slots += sum.fold(range).passed_on;
  }
  for (const comm::FinishPlan::Source& source : tree_.sources) {
    const auto worker = static_cast<uint32_t>(source.worker.value);
    const int64_t slot = first_slot[worker] + source.slot;
    if (worker == shares_.worker()) {
      sources_.push_back({worker, slot, sums_.values(source.slot)});
      continue;
    }
    received_.push_back(new_floats(shares_.packed_floats(), device));
    sources_.push_back({worker, slot, received_.back().mutable_data_ptr<float>()});
  }
}

void PassedSums::show_presence(size_t parameter) {
  int own_slot = 0;
  for (const PassedSum& source : sources_) {
    if (source.worker != shares_.worker()) continue;
    const bool present = sums_.present(own_slot, parameter);
    memory_.gradients()[source.slot].presence[parameter] = present ? 1 : 0;
    if (!present) sums_.clear(own_slot, parameter);
    ++own_slot;
  }
}

bool PassedSums::reached(size_t parameter) const {
  return std::ranges::any_of(
      sources_, [&](const PassedSum& source) { return memory_.gradients()[source.slot].presence[parameter] != 0; });
}

float* PassedSums::own_part(const PassedSum& source, size_t bucket) const {
  const bool is_own = source.worker == shares_.worker();
  return source.values + (is_own ? shares_.own(bucket).begin : shares_.packed_at(bucket));
}

void PassedSums::add_transfers(size_t bucket, std::vector<device::Transfer>& sends,
                               std::vector<device::Transfer>& receives) const {
  const size_t own_bytes = shares_.own(bucket).size() * sizeof(float);
  for (const PassedSum& source : sources_) {
    if (source.worker != shares_.worker()) {
      if (own_bytes > 0) receives.push_back({source.worker, own_part(source, bucket), own_bytes});
      continue;
    }
    for (uint32_t peer = 0; peer < shares_.workers(); ++peer) {
      const BucketRange theirs = shares_.share(bucket, peer);
      if (peer != shares_.worker() && theirs.size() > 0)
        sends.push_back({peer, source.values + theirs.begin, theirs.size() * sizeof(float)});
    }
  }
}

void PassedSums::finish(size_t bucket, float* whole, const kernels::DeviceQueue& queue) const {
  const BucketRange own = shares_.own(bucket);
  if (own.size() == 0) return;
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
    if (whole != nullptr && at + 1 == tree_.program.size()) stack.back() = whole + own.begin;
    queue.updates->add(stack.back(), left, right, own.size(), queue);
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
  if (clips_) whole_ = new_floats(job_.places().model.parameters_bytes() / sizeof(float), place.device);
}

bool ExchangedUpdate::begin_step(Step step) {
  awaited_ = shares_.parameters_in();
  next_bucket_ = 0;
  return ResidentCarrier::begin_step(step);
}

void ExchangedUpdate::fold(size_t arrival, size_t parameter, const torch::Tensor& gradient) {
  sums_.fold(arrival, parameter, gradient);
  if (arrival + 1 < sums_.ests()) return;
  passed_.show_presence(parameter);
  for (const size_t bucket : shares_.buckets_of(parameter)) --awaited_[bucket];
  // All workers send in one order, whatever the order of the workers' gradients.
  if (next_bucket_ < awaited_.size() && awaited_[next_bucket_] == 0) sums_.flush();
  while (next_bucket_ < awaited_.size() && awaited_[next_bucket_] == 0) send_sums(next_bucket_++);
}

void ExchangedUpdate::send_sums(size_t bucket) {
  sends_.clear();
  receives_.clear();
  passed_.add_transfers(bucket, sends_, receives_);
  place_.exchange->transfer(sends_, receives_);
}

// Returns the sum of the tree, where PassedSums::finish() has left the sum.
const float* ExchangedUpdate::gradient_of(const ParameterPiece& piece, size_t bucket) const {
  const size_t offset = job_.places().model.gradient_offset(piece.parameter) + piece.begin;
  if (clips_) return whole_.const_data_ptr<float>() + offset;
  return passed_.sum(bucket) + (offset - shares_.own(bucket).begin);
}

const float* ExchangedUpdate::clip_factor() {
  for (size_t b = 0; b < shares_.buckets(); ++b) share_out(b, whole_.mutable_data_ptr<float>());
  place_.exchange->join();
  std::vector<const float*> gradients;
  for (size_t i = 0; i < job_.places().model.num_parameters(); ++i)
    gradients.push_back(passed_.reached(i) ? whole_.const_data_ptr<float>() + job_.places().model.gradient_offset(i)
                                           : nullptr);
  return optimizer_.clip_factor(gradients);
}

void ExchangedUpdate::share_out(size_t bucket, float* values) {
  sends_.clear();
  receives_.clear();
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
  std::byte* const buffers = job_.places().model.buffers(place_.resident->copy(step_.next()));
  if (shares_.worker() != keeper_) receives_.push_back({keeper_, buffers, bytes});
  for (uint32_t peer = 0; peer < shares_.workers() && shares_.worker() == keeper_; ++peer) {
    if (peer != shares_.worker()) sends_.push_back({peer, buffers, bytes});
  }
  place_.exchange->transfer(sends_, receives_);
}

SavedPart ExchangedUpdate::saved_part() const {
  SavedPart part{.ests = own_, .counts = shares_.worker() == keeper_, .of_workers = shares_.workers()};
  std::byte* const base = place_.resident->copy(Step(0));
  const auto add = [&](const float* begin, size_t floats) {
    const auto offset = static_cast<size_t>(reinterpret_cast<const std::byte*>(begin) - base);
    part.regions.push_back({offset, floats * sizeof(float)});
  };
  for (size_t b = 0; b < shares_.buckets(); ++b) {
    const BucketRange own = shares_.own(b);
    if (own.size() > 0) add(job_.places().model.parameters(base) + own.begin, own.size());
    for (const ParameterPiece& piece : shares_.pieces(b)) {
      for (size_t k = 0; k < job_.places().optimizer.num_slots(piece.parameter); ++k)
        add(job_.places().optimizer.slot(base, piece.parameter, k) + piece.begin, piece.size);
    }
  }
  if (shares_.worker() == keeper_ && job_.places().model.buffers_bytes() > 0)
    part.regions.push_back({job_.places().model.buffers_offset(), job_.places().model.buffers_bytes()});
  part.regions = joined(std::move(part.regions));
  return part;
}

int64_t ExchangedUpdate::pass() {
  const int64_t done = monotonic_ns();
  aborted_ = !gathered_.meet();
  const int64_t waited = monotonic_ns() - done;
  if (aborted_) return waited;
  place_.exchange->join();
  float* const whole = clips_ ? whole_.mutable_data_ptr<float>() : nullptr;
  for (size_t b = 0; b < shares_.buckets(); ++b) passed_.finish(b, whole, *place_.device.queue());
  const float* const factor = clips_ ? clip_factor() : nullptr;
  for (size_t i = 0; i < job_.places().model.num_parameters(); ++i) optimizer_.count(i, passed_.reached(i));
  float* const parameters = job_.places().model.parameters(place_.resident->copy(step_.next()));
  for (size_t b = 0; b < shares_.buckets(); ++b) {
    for (const ParameterPiece& piece : shares_.pieces(b))
      optimizer_.update(piece, passed_.reached(piece.parameter) ? gradient_of(piece, b) : nullptr);
    optimizer_.flush(factor);
    share_out(b, parameters);
  }
  share_buffers();
  place_.exchange->join();
  place_.device.finish_reads();
  optimizer_.read_results();
  return waited;
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
