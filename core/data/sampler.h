#pragma once
// Which samples every EST takes, and when: PyTorch's DistributedSampler with a DataLoader's batches on top.
//
// Epoch e orders the n samples by randperm(n, seed + e) (without shuffle: 0..n-1) and repeats that list from its start
// up to a multiple of N, over and over where N exceeds n. Virtual rank r takes positions r, r+N, r+2N, …; its list is
// cut into mini-batches of `batch`, the last one short unless drop_last. All ranks' lists have one length, so one
// cursor describes the progress of all of them, and the worker that hosts a rank has no part in what the rank reads: a
// resize at any step hands every position to exactly one reader.

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "core/base/ids.h"

namespace estrain::data {

// How far the job has read. Counts samples, not steps: it stays meaningful when the batch size changes.
struct Cursor {
  Epoch epoch;
  int64_t samples = 0;  // that each virtual rank has consumed in this epoch

  constexpr auto operator<=>(const Cursor&) const = default;
};

// Thread-safe: every member may be called from any thread.
class Sampler {
 public:
  struct Options {
    int64_t dataset_size = 0;  // n
    int64_t ests = 1;          // N
    int64_t batch = 1;         // samples per EST and step
    bool shuffle = true;
    bool drop_last = false;
    uint64_t seed = 0;
  };

  // Throws Fault::infeasible where an epoch would have no mini-batch: an empty data set, or drop_last with a batch
  // larger than an EST's share.
  explicit Sampler(const Options& options);
  Sampler(int64_t dataset_size, int64_t ests, int64_t batch, bool shuffle, bool drop_last, uint64_t seed);

  int64_t ests() const { return options_.ests; }
  int64_t batch() const { return options_.batch; }                  // of an epoch's largest mini-batch
  int64_t samples_per_est() const { return samples_per_est_; }      // ceil(n / N): the length of every rank's list
  int64_t batches_per_epoch() const { return batches_per_epoch_; }  // steps of an epoch

  // The same place, written the one way a step can start from: the start of the next epoch where no mini-batch is left
  // in this one. Needed for a cursor that was reached with another batch size; advance() returns settled cursors.
  Cursor settle(Cursor cursor) const;

  // Number of samples in each EST's mini-batch at a settled cursor; and the settled cursor after that mini-batch.
  int64_t batch_size(Cursor cursor) const;
  Cursor advance(Cursor cursor) const;

  // Where a job stands that began at epoch 0 and took `step` steps with this batch size.
  Cursor cursor_at(Step step) const;

  // The samples of one rank's mini-batch at a settled cursor, in order.
  std::vector<int64_t> indices(Cursor cursor, VirtualRank rank) const;
  // Part of it: the samples from the mini-batch's `first` on, as many as `out` holds.
  void indices(Cursor cursor, VirtualRank rank, int64_t first, std::span<int64_t> out) const;

 private:
  using Order = std::vector<int64_t>;
  struct CachedOrder {
    Epoch epoch{-1};
    std::shared_ptr<const Order> order;
  };

  std::shared_ptr<const Order> order(Epoch epoch) const;

  Options options_;
  int64_t samples_per_est_ = 0;
  int64_t batches_per_epoch_ = 0;
  mutable std::mutex mutex_;
  mutable CachedOrder cache_[2];  // by parity: readers stand in an epoch and, some batches ahead, in the next
};

}  // namespace estrain::data
