#include "core/engine/train/resident/passed_sums.h"

#include <algorithm>
#include <utility>

#include "kernels/execution.h"
#include "kernels/portable/calls/device_kernels.h"

namespace estrain::train {

void CompleteBuckets::begin_step() {
  awaited_.assign(shares_.buckets(), 0);
  for (size_t i = 0; i < shares_.parameters(); ++i)
    for (const size_t bucket : shares_.buckets_of(i)) ++awaited_[bucket];
  next_ = 0;
}

void CompleteBuckets::note(size_t parameter) {
  for (const size_t bucket : shares_.buckets_of(parameter)) --awaited_[bucket];
}

PassedSums::PassedSums(Workplace& place, const StageOrder& order, const OwnShares& shares, ResidentSums& sums,
                       Carrying carrying)
    : place_(place),
      device_(place.device),
      shares_(shares),
      sums_(sums),
      carrying_(std::move(carrying)),
      tree_(place.job.gradient_sum().finish(order.all_ranges())),
      complete_(shares) {
  size_t others = 0;
  for (const comm::FinishPlan::Source& source : tree_.sources) {
    const auto worker = static_cast<uint32_t>(source.worker.value);
    sources_.push_back({worker, worker == shares_.worker() ? static_cast<size_t>(source.slot) : others++});
  }
  totals_ = new_floats(shares_.packed_floats(), device_);
  received_ = new_floats(others * shares_.largest_share(), device_);
  reached_ = new_floats(shares_.parameters(), device_);
  told_ = new_floats(shares_.parameters() * shares_.workers(), device_);
  for (at::Tensor& scaled : scaled_)
    if (!sums_.has_slots()) scaled = new_floats(shares_.largest_bucket(), device_);
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
  queue.kernels->copy(value, value, 1, {.device = &queue});
}

void PassedSums::begin_step() {
  complete_.begin_step();
  gradients_.assign(shares_.parameters(), {});
  for (std::function<void()>& await : await_passed_) await = nullptr;
  reached_.fill_(1);
}

void PassedSums::fold(size_t arrival, size_t parameter, const at::Tensor& gradient) {
  if (sums_.has_slots()) sums_.fold(arrival, parameter, gradient);
  if (arrival + 1 < sums_.ests()) return;
  take(parameter, gradient);
  complete_.note(parameter);
  if (complete_.has_next()) sums_.flush();
  while (complete_.has_next()) send(complete_.next());
}

void PassedSums::send(size_t bucket) {
  if (bucket > 0) {
    end_bucket(bucket - 1);
    if (!sums_.has_slots()) await_passed_[(bucket - 1) % kScaled] = place_.exchange->mark();
  }
  prepare(bucket);
  place_.exchange->follow();
  group_ = {};
  pass_on(bucket);
  if (bucket > 0 && carrying_.send_on) carrying_.send_on(bucket - 1, group_);
  place_.exchange->transfer(group_);
}

void PassedSums::end_bucket(size_t bucket) {
  place_.exchange->run([this, bucket] { carrying_.arrived(bucket); });
}

void PassedSums::end_last_bucket() {
  if (shares_.buckets() > 0) end_bucket(shares_.buckets() - 1);
}

void PassedSums::take(size_t parameter, const at::Tensor& gradient) {
  bool reached = gradient.defined();
  if (!sums_.has_slots()) gradients_[parameter] = gradient;
  for (const PassedSum& source : sources_) {
    if (!is_own(source) || !sums_.has_slots()) continue;
    const auto slot = static_cast<int>(source.place);
    reached |= sums_.present(slot, parameter);
    if (!sums_.present(slot, parameter)) sums_.clear(slot, parameter);
  }
  if (!reached) reached_.narrow(0, static_cast<int64_t>(parameter), 1).zero_();
}

float* PassedSums::told_by(uint32_t worker, size_t bucket) const {
  const BucketRange parts = shares_.first_parts(bucket);
  return told_.mutable_data_ptr<float>() + parts.begin * shares_.workers() + worker * parts.size();
}

float* PassedSums::own_sum(const PassedSum& sum, size_t bucket, size_t offset) const {
  if (sums_.has_slots()) return sums_.values(static_cast<int>(sum.place)) + offset;
  return scaled_[bucket % kScaled].mutable_data_ptr<float>() + (offset - shares_.bucket(bucket).begin);
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
      scaled_[bucket % kScaled].narrow(0, static_cast<int64_t>(at), static_cast<int64_t>(part.size)).zero_();
    }
  }
  device_.queue()->updates->fold_scaled(to, {}, sums_.factor(), pieces, *device_.queue());
  for (const ParameterPiece& part : shares_.parts(bucket))
    if (shares_.buckets_of(part.parameter).back() == bucket) gradients_[part.parameter].reset();
}

void PassedSums::prepare(size_t bucket) {
  if (sums_.has_slots()) return;
  if (await_passed_[bucket % kScaled]) await_passed_[bucket % kScaled]();
  scale_gradients(bucket);
}

void PassedSums::pass_on(size_t bucket) {
  const BucketRange parts = shares_.first_parts(bucket);
  if (parts.size() > 0)
    group_.gathers.push_back(
        {reached_.const_data_ptr<float>() + parts.begin, told_by(0, bucket), parts.size() * sizeof(float)});
  const size_t own_bytes = shares_.own(bucket).size() * sizeof(float);
  for (const PassedSum& source : sources_) {
    if (!is_own(source)) {
      if (own_bytes > 0) group_.receives.push_back({source.worker, own_part(source, bucket), own_bytes});
      continue;
    }
    for (uint32_t peer = 0; peer < shares_.workers(); ++peer) {
      const BucketRange theirs = shares_.share(bucket, peer);
      if (peer != shares_.worker() && theirs.size() > 0)
        group_.sends.push_back({peer, own_sum(source, bucket, theirs.begin), theirs.size() * sizeof(float)});
    }
  }
}

void PassedSums::unite_told(size_t bucket, float* reached) const {
  const size_t parameters = shares_.first_parts(bucket).size();
  std::vector<const float*> others;
  for (uint32_t worker = 1; worker < shares_.workers(); ++worker) others.push_back(told_by(worker, bucket));
  kernels::FoldPiece piece = {told_by(0, bucket), 0, parameters};
  for (size_t begin = 0; begin < others.size(); begin += kernels::kMostDeviceOperands) {
    const size_t count = std::min(others.size() - begin, kernels::kMostDeviceOperands);
    device_.queue()->updates->fold_scaled(reached, {others.data() + begin, count}, 1, {&piece, 1}, *device_.queue());
    piece.src = reached;
  }
}

at::Tensor PassedSums::total_values(size_t bucket) const {
  return totals_.narrow(0, static_cast<int64_t>(shares_.packed_at(bucket)),
                        static_cast<int64_t>(shares_.own(bucket).size()));
}

void PassedSums::finish(size_t bucket, float* reached) {
  if (shares_.first_parts(bucket).size() > 0) unite_told(bucket, reached + shares_.first_parts(bucket).begin);
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

}  // namespace estrain::train
