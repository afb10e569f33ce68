#pragma once
// Decides which samples each EST takes, and when: PyTorch's DistributedSampler with a DataLoader's batches on top.
//
// Epoch e orders the n samples by randperm(n, seed + e) (without shuffle: 0..n-1), and repeats that list from its start
// up to a multiple of N, several times if N exceeds n. Virtual rank r takes positions r, r+N, r+2N, …; its list is cut
// into mini-batches of `batch`, the last one short unless drop_last. All ranks' lists have the same length, so one
// cursor describes the progress of all of them. The worker that hosts a rank does not affect what the rank reads: at a
// resize, every position still goes to exactly one reader.

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "core/base/ids.h"

namespace estrain::data {

// The job's progress in the data. Counts samples, not steps, so that it stays meaningful if the batch size changes.
struct Cursor {
  Epoch epoch;
  int64_t samples = 0;  // consumed by each virtual rank in this epoch

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

  // Throws Fault::infeasible if an epoch would have no mini-batch: an empty data set, or drop_last with a batch larger
  // than an EST's share.
  explicit Sampler(const Options& options);
  Sampler(int64_t dataset_size, int64_t ests, int64_t batch, bool shuffle, bool drop_last, uint64_t seed);

  int64_t ests() const { return options_.ests; }
  int64_t batch() const { return options_.batch; }                  // size of an epoch's largest mini-batch
  int64_t samples_per_est() const { return samples_per_est_; }      // ceil(n / N): the length of every rank's list
  int64_t batches_per_epoch() const { return batches_per_epoch_; }  // steps of an epoch

  // Normalises a cursor to the form from which a step can start: the start of the next epoch if no mini-batch is left
  // in this one. Needed for a cursor from another batch size; advance() returns settled cursors.
  Cursor settle(Cursor cursor) const;

  // The number of samples in each EST's mini-batch at a settled cursor; and the settled cursor after that mini-batch.
  int64_t batch_size(Cursor cursor) const;
  Cursor advance(Cursor cursor) const;

  // The cursor of a job that began at epoch 0 and took `step` steps with this batch size.
  Cursor cursor_at(Step step) const;

  // The samples of one rank's mini-batch at a settled cursor, in order.
  std::vector<int64_t> indices(Cursor cursor, VirtualRank rank) const;
  // Part of it: the samples from `first` on, as many as fit into `out`.
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
  mutable CachedOrder cache_[2];  // by parity: readers may be in one epoch and, some batches ahead, in the next
};

}  // namespace estrain::data
