#include "core/data/sampling/sampler.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>

#include "core/base/error.h"

namespace estrain::data {
namespace {

std::vector<int64_t> narrow(int64_t n, std::mt19937& twister) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  for (int64_t i = 0; i + 1 < n; ++i) {
    // n - i fits into 32 bits here, and a 32-bit division is several times as fast.
    const int64_t z = static_cast<uint32_t>(twister()) % static_cast<uint32_t>(n - i);
    std::swap(order[static_cast<size_t>(i)], order[static_cast<size_t>(i + z)]);
  }
  return order;
}

std::vector<int64_t> wide(int64_t n, std::mt19937& twister) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t high = twister();
    const uint64_t low = twister();
    const size_t z = ((high << 32) | low) % static_cast<uint64_t>(i + 1);
    order[static_cast<size_t>(i)] = order[z];
    order[z] = i;
  }
  return order;
}

}  // namespace

EpochSampler::EpochSampler(const Options& options) : options_(options) {
  const int64_t n = options_.dataset_size, ests = options_.ests, batch = options_.batch;
  if (ests < 1 || batch < 1)
    throw Error::make(Fault::bug, "sampler: {} ESTs, batch {}: both must be positive", ests, batch);
  if (n < 1) throw Error(Fault::infeasible, "the data set has no training samples");
  if (!options_.weights.empty()) weighted_.emplace(options_.weights);
  if (options_.per_class > 0) groups_.emplace(options_.labels, options_.per_class, options_.seed);
  if (options_.bucket > 0) buckets_ = {std::move(options_.lengths), options_.bucket, options_.seed};
  make_schedule();
}

void EpochSampler::change_batches(std::vector<batches::BatchChange> changes) {
  options_.changes = std::move(changes);
  make_schedule();
  const std::lock_guard lock(mutex_);
  for (CachedOrder& cached : cache_) cached = {};  // buckets are ordered for the batch size
}

void EpochSampler::make_schedule() {
  if (groups_) check_groups();
  const int64_t n = options_.dataset_size, ests = options_.ests, batch = options_.batch;
  const int64_t each = samples_of_each(n, ests, options_.per_class);
  const std::vector<batches::BatchChange>& changes = options_.changes;
  schedule_ = {each, batch, options_.drop_last, changes};
  if (!schedule_.has_empty_epoch()) return;
  int64_t largest = batch;
  for (const batches::BatchChange& change : changes) largest = std::max(largest, change.batch);
  throw Error::make(Fault::infeasible,
                    "an epoch has no mini-batch: {} samples over {} ESTs are {} each, fewer than data.batch = {}, and "
                    "data.drop_last leaves short batches out",
                    n, ests, each, largest)
      .advise(fmt::format("set data.batch to at most {}, or data.drop_last = false", each));
}

EpochSampler::EpochSampler(int64_t dataset_size, int64_t ests, int64_t batch, bool shuffle, bool drop_last,
                           uint64_t seed)
    : EpochSampler(Options{dataset_size, ests, batch, shuffle, drop_last, seed, {}}) {}

void EpochSampler::check_groups() const {
  const int64_t per_class = options_.per_class;
  const int64_t each = samples_of_each(options_.dataset_size, options_.ests, 0);
  if (each < per_class) {
    throw Error::make(Fault::infeasible, "{} samples over {} ESTs are {} each, fewer than data.per_class = {}",
                      options_.dataset_size, options_.ests, each, per_class)
        .advise("use fewer ESTs (job.ests), or a smaller data.per_class");
  }
  int64_t largest = options_.batch;
  for (const batches::BatchChange& change : options_.changes) largest = std::max(largest, change.batch);
  const int64_t classes = std::min(largest, each) / per_class;
  if (classes <= groups_->classes()) return;
  throw Error::make(Fault::infeasible,
                    "a mini-batch of {} samples with data.per_class = {} has {} classes, but only {} have samples",
                    largest, per_class, classes, groups_->classes())
      .advise(fmt::format("set data.batch to at most {}, or a larger data.per_class", groups_->classes() * per_class));
}

std::vector<int64_t> EpochSampler::indices(Step step, VirtualRank rank) const {
  std::vector<int64_t> samples(static_cast<size_t>(schedule_.batch_size(step)));
  indices(schedule_.cursor_at(step), rank, 0, samples);
  return samples;
}

void EpochSampler::indices(Cursor cursor, VirtualRank rank, int64_t first, std::span<int64_t> out) const {
  if (groups_) return groups_->indices(cursor.epoch, place_of(cursor, rank, 0), first, out);
  const auto permutation = options_.shuffle || weighted_ ? order(cursor.epoch) : nullptr;
  int64_t position = place_of(cursor, rank, first);
  for (int64_t& index : out) {
    const int64_t place = buckets_ ? position : position % options_.dataset_size;
    index = permutation ? (*permutation)[static_cast<size_t>(place)] : place;
    position += options_.ests;
  }
}

std::shared_ptr<const EpochSampler::Order> EpochSampler::order(Epoch epoch) const {
  std::lock_guard lock(mutex_);
  CachedOrder& cached = cache_[epoch.value & 1];
  if (!cached.order || cached.epoch != epoch) {
    cached.order.reset();
    cached.order = std::make_shared<const Order>(list_of(epoch));
    cached.epoch = epoch;
  }
  return cached.order;
}

// With buckets, the list has a place for each sample of each EST.
EpochSampler::Order EpochSampler::list_of(Epoch epoch) const {
  const uint64_t seed = options_.seed + static_cast<uint64_t>(epoch.value);
  Order list = weighted_ ? weighted_->draw(seed) : randperm(options_.dataset_size, seed);
  if (!buckets_) return list;
  const auto places = static_cast<size_t>(samples_per_est() * options_.ests);
  list.reserve(places);
  while (list.size() < places) list.push_back(list[list.size() - static_cast<size_t>(options_.dataset_size)]);
  buckets_->order(list, schedule_.batch_size(schedule_.end_of(epoch)), options_.ests, epoch);
  return list;
}

std::vector<int64_t> randperm(int64_t n, uint64_t seed) {
  std::mt19937 twister(static_cast<uint32_t>(seed));
  return n < randperm_wide_from ? narrow(n, twister) : wide(n, twister);
}

}  // namespace estrain::data
