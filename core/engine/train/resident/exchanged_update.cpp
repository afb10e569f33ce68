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

ExchangedUpdate::ExchangedUpdate(Workplace& place, const StageOrder& order)
    : ResidentCarrier(place, order),
      own_(order.own()),
      keeper_(worker_of_est_0(order)),
      shares_(job_.places().model, static_cast<uint32_t>(order.worker.value), order.workers()),
      passed_(place, order, shares_, sums_, {.arrived = [this](size_t bucket) { finish_sums(bucket); }}),
      pulse_(place.memory.pulse(order.rank())) {
  tick_ = new_floats(1, place.device);
  size_t parts = 0;
  for (size_t b = 0; b < shares_.buckets(); ++b) parts += shares_.pieces(b).size();
  device_squares_.expect_parts(parts);
  if (!clips_) return;
  clipped_ = groups_of(job_.places().model, shares_.largest_bucket());
  whole_ = new_floats(largest_range(job_.places().model, clipped_), place.device);
}

bool ExchangedUpdate::begin_step(Step step) {
  passed_.begin_step();
  return ResidentCarrier::begin_step(step);
}

void ExchangedUpdate::finish_sums(size_t bucket) {
  passed_.finish(bucket, optimizer_.reached());
  for (const ParameterPiece& piece : shares_.pieces(bucket))
    device_squares_.add_mean(total_of(bucket, piece), piece.size);
  if (!clips_) update_share(bucket, nullptr);
}

float* ExchangedUpdate::total_of(size_t bucket, const ParameterPiece& piece) const {
  return passed_.total(bucket) + (shares_.offset(piece) - shares_.own(bucket).begin);
}

void ExchangedUpdate::update_share(size_t bucket, const float* factor) {
  place_.resident->await_save();
  for (const ParameterPiece& piece : shares_.pieces(bucket)) optimizer_.update_apart(piece, total_of(bucket, piece));
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
  passed_.end_last_bucket();
  if (clips_) update_clipped();
  place_.exchange->follow();  // the pass is over: nothing reads the parameters
  group_ = {};
  for (size_t b = 0; b < shares_.buckets(); ++b) share_out(b);
  share_buffers();
  place_.exchange->transfer(group_);
  place_.exchange->join();
  optimizer_.read_results(/*counts=*/true);
  device_squares_.read();
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
