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
                       device::ComputeDevice& device)
    : shares_(shares), sums_(sums), device_(device), tree_(sum.finish(order.ranges)) {
  size_t others = 0;
  for (const comm::FinishPlan::Source& source : tree_.sources) {
    const auto worker = static_cast<uint32_t>(source.worker.value);
    sources_.push_back({worker, worker == shares_.worker() ? static_cast<size_t>(source.slot) : others++});
  }
  totals_ = new_floats(shares_.packed_floats(), device);
  received_ = new_floats(others * shares_.largest_share(), device);
  reached_ = new_floats(shares_.parameters(), device);
  told_ = new_floats(shares_.parameters() * shares_.workers(), device);
  for (at::Tensor& scaled : scaled_)
    if (!sums_.has_slots()) scaled = new_floats(shares_.largest_bucket(), device);
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
  gradients_.assign(shares_.parameters(), {});
  for (std::function<void()>& await : await_passed_) await = nullptr;
  reached_.fill_(1);
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

void PassedSums::pass_on(size_t bucket, device::TransferGroup& group) {
  const BucketRange parts = shares_.first_parts(bucket);
  if (parts.size() > 0)
    group.gathers.push_back(
        {reached_.const_data_ptr<float>() + parts.begin, told_by(0, bucket), parts.size() * sizeof(float)});
  const size_t own_bytes = shares_.own(bucket).size() * sizeof(float);
  for (const PassedSum& source : sources_) {
    if (!is_own(source)) {
      if (own_bytes > 0) group.receives.push_back({source.worker, own_part(source, bucket), own_bytes});
      continue;
    }
    for (uint32_t peer = 0; peer < shares_.workers(); ++peer) {
      const BucketRange theirs = shares_.share(bucket, peer);
      if (peer != shares_.worker() && theirs.size() > 0)
        group.sends.push_back({peer, own_sum(source, bucket, theirs.begin), theirs.size() * sizeof(float)});
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

ExchangedUpdate::ExchangedUpdate(Workplace& place, const StageOrder& order)
    : ResidentCarrier(place, order),
      own_(order.own()),
      keeper_(worker_of_est_0(order)),
      shares_(job_.places().model, static_cast<uint32_t>(order.worker.value), order.workers()),
      passed_(job_.gradient_sum(), order, shares_, sums_, place.device),
      pulse_(place.memory.pulse(order.rank())) {
  tick_ = new_floats(1, place.device);
  if (!clips_) return;
  clipped_ = groups_of(job_.places().model, shares_.largest_bucket());
  whole_ = new_floats(largest_range(job_.places().model, clipped_), place.device);
}

bool ExchangedUpdate::begin_step(Step step) {
  awaited_.assign(shares_.buckets(), 0);
  for (size_t i = 0; i < shares_.parameters(); ++i)
    for (const size_t bucket : shares_.buckets_of(i)) ++awaited_[bucket];
  next_bucket_ = 0;
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

// A bucket is finished when the next one is sent: NCCL has enqueued its transfers by then, and the host need not wait.
void ExchangedUpdate::send_sums(size_t bucket) {
  if (bucket > 0) {
    finish_sums(bucket - 1);
    if (!sums_.has_slots()) passed_.passed(bucket - 1, place_.exchange->mark());
  }
  passed_.prepare(bucket);
  place_.exchange->follow();
  group_ = {};
  passed_.pass_on(bucket, group_);
  place_.exchange->transfer(group_);
}

void ExchangedUpdate::finish_sums(size_t bucket) {
  place_.exchange->run([this, bucket] {
    passed_.finish(bucket, optimizer_.reached());
    if (!clips_) update_share(bucket, nullptr);
  });
}

void ExchangedUpdate::update_share(size_t bucket, const float* factor) {
  place_.resident->await_save();
  for (const ParameterPiece& piece : shares_.pieces(bucket))
    optimizer_.update_apart(piece, passed_.total(bucket) + (shares_.offset(piece) - shares_.own(bucket).begin));
  optimizer_.flush(factor);
}

// Norms are of whole parameters, in the portable order.
void ExchangedUpdate::update_clipped() {
  const ModelPlaces& model = job_.places().model;
  for (const std::vector<size_t>& group : clipped_) {
    const BucketRange range = range_of(model, group);
    gather_totals(range, whole_.mutable_data_ptr<float>());
    std::vector<ResidentOptimizer::Gradient> gradients;
    for (const size_t i : group)
      gradients.push_back({i, whole_.const_data_ptr<float>() + (model.gradient_offset(i) - range.begin)});
    place_.exchange->run([&] { optimizer_.take_norms(gradients); });
  }
  place_.exchange->run([this] {
    const float* const factor = optimizer_.clip_factor(optimizer_.reached());
    for (size_t b = 0; b < shares_.buckets(); ++b) update_share(b, factor);
  });
}

void ExchangedUpdate::gather_totals(const BucketRange& range, float* totals) {
  group_ = {};
  const auto copy_own = [this](float* to, const float* from, size_t floats) {
    const kernels::DeviceQueue& queue = *place_.device.queue();
    queue.kernels->copy(to, from, static_cast<int64_t>(floats), {.device = &queue});
  };
  for (size_t b = 0; b < shares_.buckets(); ++b) {
    for (uint32_t owner = 0; owner < shares_.workers(); ++owner) {
      const BucketRange share = shares_.share(b, owner);
      const size_t begin = std::max(range.begin, share.begin), end = std::min(range.end, share.end);
      if (begin >= end) continue;
      float* const place = totals + (begin - range.begin);
      const size_t bytes = (end - begin) * sizeof(float);
      if (owner != shares_.worker()) {
        group_.receives.push_back({owner, place, bytes});
        continue;
      }
      float* const own = passed_.total(b) + (begin - share.begin);
      place_.exchange->run([&] { copy_own(place, own, end - begin); });
      for (uint32_t peer = 0; peer < shares_.workers(); ++peer)
        if (peer != owner) group_.sends.push_back({peer, own, bytes});
    }
  }
  place_.exchange->transfer(group_);
}

void ExchangedUpdate::share_out(size_t bucket) {
  float* const values = place_.resident->parameters();
  const BucketRange own = shares_.own(bucket);
  float* const from = passed_.total(bucket);
  if (shares_.is_even(bucket)) {
    group_.gathers.push_back({from, values + shares_.bucket(bucket).begin, own.size() * sizeof(float)});
    return;
  }
  for (uint32_t peer = 0; peer < shares_.workers(); ++peer) {
    if (peer == shares_.worker()) continue;
    const BucketRange theirs = shares_.share(bucket, peer);
    if (own.size() > 0) group_.sends.push_back({peer, from, own.size() * sizeof(float)});
    if (theirs.size() > 0) group_.receives.push_back({peer, values + theirs.begin, theirs.size() * sizeof(float)});
  }
  place_.exchange->run([&] {
    const kernels::DeviceQueue& queue = *place_.device.queue();
    queue.kernels->copy(values + own.begin, from, static_cast<int64_t>(own.size()), {.device = &queue});
  });
}

void ExchangedUpdate::share_buffers() {
  const size_t bytes = job_.places().model.buffers_bytes();
  if (bytes == 0) return;
  void* const buffers = place_.resident->buffers(step_.next()).mutable_data_ptr();
  if (shares_.worker() != keeper_) group_.receives.push_back({keeper_, buffers, bytes});
  for (uint32_t peer = 0; peer < shares_.workers() && shares_.worker() == keeper_; ++peer) {
    if (peer != shares_.worker()) group_.sends.push_back({peer, buffers, bytes});
  }
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
  place_.device.read(tick_, [this](const float*) { computed_ns_ = monotonic_ns(); });
  if (shares_.buckets() > 0) finish_sums(shares_.buckets() - 1);
  if (clips_) update_clipped();
  place_.exchange->follow();  // the pass is over: nothing reads the parameters
  group_ = {};
  for (size_t b = 0; b < shares_.buckets(); ++b) share_out(b);
  share_buffers();
  place_.exchange->transfer(group_);
  place_.exchange->join();
  optimizer_.read_results(/*counts=*/true);
  waiting(pulse_, comm::Activity::meeting, [this] {
    place_.device.finish_reads();
    return true;
  });
  return monotonic_ns() - computed_ns_;
}

bool ExchangedUpdate::finish() {
  place_.exchange->check();
  return !place_.memory.gate().aborted();
}

}  // namespace estrain::train
