#include "core/data/sampling/sampler.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/data/sampling/permutation.h"

namespace estrain::data {
namespace {

int64_t divide_up(int64_t a, int64_t b) { return a / b + (a % b != 0); }

}  // namespace

Sampler::Sampler(const Options& options) : options_(options) {
  const auto& [n, ests, batch, shuffle, drop_last, seed] = options_;
  if (ests < 1 || batch < 1)
    throw Error::make(Fault::bug, "sampler: {} ESTs, batch {}: both must be positive", ests, batch);
  if (n < 1) throw Error(Fault::infeasible, "the data set has no training samples");
  samples_per_est_ = divide_up(n, ests);
  batches_per_epoch_ = drop_last ? samples_per_est_ / batch : divide_up(samples_per_est_, batch);
  if (batches_per_epoch_ == 0) {
    throw Error::make(
        Fault::infeasible,
        "an epoch has no mini-batch: {} samples over {} ESTs are {} each, fewer than data.batch = {}, and "
        "data.drop_last leaves short batches out",
        n, ests, samples_per_est_, batch)
        .advise(fmt::format("set data.batch to at most {}, or data.drop_last = false", samples_per_est_));
  }
  options_.batch = std::min(batch, samples_per_est_);
}

Sampler::Sampler(int64_t dataset_size, int64_t ests, int64_t batch, bool shuffle, bool drop_last, uint64_t seed)
    : Sampler(Options{dataset_size, ests, batch, shuffle, drop_last, seed}) {}

int64_t Sampler::batch_size(Cursor cursor) const { return std::min(options_.batch, samples_per_est_ - cursor.samples); }

Cursor Sampler::settle(Cursor cursor) const {
  const int64_t smallest = options_.drop_last ? options_.batch : 1;
  return batch_size(cursor) >= smallest ? cursor : Cursor{cursor.epoch.next(), 0};
}

Cursor Sampler::advance(Cursor cursor) const { return settle({cursor.epoch, cursor.samples + batch_size(cursor)}); }

Cursor Sampler::cursor_at(Step step) const {
  return {Epoch(step.value / batches_per_epoch_), step.value % batches_per_epoch_ * options_.batch};
}

std::vector<int64_t> Sampler::indices(Cursor cursor, VirtualRank rank) const {
  std::vector<int64_t> samples(static_cast<size_t>(batch_size(cursor)));
  indices(cursor, rank, 0, samples);
  return samples;
}

void Sampler::indices(Cursor cursor, VirtualRank rank, int64_t first, std::span<int64_t> out) const {
  const auto permutation = options_.shuffle ? order(cursor.epoch) : nullptr;
  int64_t position = (cursor.samples + first) * options_.ests + rank.value;
  for (int64_t& index : out) {
    const int64_t place = position % options_.dataset_size;
    index = permutation ? (*permutation)[static_cast<size_t>(place)] : place;
    position += options_.ests;
  }
}

std::shared_ptr<const Sampler::Order> Sampler::order(Epoch epoch) const {
  std::lock_guard lock(mutex_);
  CachedOrder& cached = cache_[epoch.value & 1];
  if (!cached.order || cached.epoch != epoch) {
    cached.order.reset();
    cached.order = std::make_shared<const Order>(
        randperm(options_.dataset_size, options_.seed + static_cast<uint64_t>(epoch.value)));
    cached.epoch = epoch;
  }
  return cached.order;
}

}  // namespace estrain::data
