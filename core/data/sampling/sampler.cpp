#include "core/data/sampling/sampler.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>

#include "core/base/error.h"

namespace estrain::data {
namespace {

int64_t divide_up(int64_t a, int64_t b) { return a / b + (a % b != 0); }

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

Sampler::Sampler(const Options& options) : options_(options) {
  const auto& [n, ests, batch, shuffle, drop_last, seed, changes] = options_;
  if (ests < 1 || batch < 1)
    throw Error::make(Fault::bug, "sampler: {} ESTs, batch {}: both must be positive", ests, batch);
  if (n < 1) throw Error(Fault::infeasible, "the data set has no training samples");
  const int64_t each = divide_up(n, ests);
  schedule_ = {each, batch, drop_last, changes};
  if (!schedule_.has_empty_epoch()) return;
  int64_t largest = batch;
  for (const batches::BatchChange& change : changes) largest = std::max(largest, change.batch);
  throw Error::make(Fault::infeasible,
                    "an epoch has no mini-batch: {} samples over {} ESTs are {} each, fewer than data.batch = {}, and "
                    "data.drop_last leaves short batches out",
                    n, ests, each, largest)
      .advise(fmt::format("set data.batch to at most {}, or data.drop_last = false", each));
}

Sampler::Sampler(int64_t dataset_size, int64_t ests, int64_t batch, bool shuffle, bool drop_last, uint64_t seed)
    : Sampler(Options{dataset_size, ests, batch, shuffle, drop_last, seed, {}}) {}

std::vector<int64_t> Sampler::indices(Step step, VirtualRank rank) const {
  std::vector<int64_t> samples(static_cast<size_t>(schedule_.batch_size(step)));
  indices(schedule_.cursor_at(step), rank, 0, samples);
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

std::vector<int64_t> randperm(int64_t n, uint64_t seed) {
  std::mt19937 twister(static_cast<uint32_t>(seed));
  return n < randperm_wide_from ? narrow(n, twister) : wide(n, twister);
}

}  // namespace estrain::data
