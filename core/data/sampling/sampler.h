#pragma once
// Decides which samples each EST takes, and when: PyTorch's DistributedSampler with a DataLoader's batches on top.
//
// Epoch e orders the n samples by randperm(n, seed + e) (without shuffle: 0..n-1), and repeats the list from the start
// up to a multiple of N, several times if N exceeds n. Virtual rank r takes positions r, r+N, r+2N, …; the rank's list
// is cut into mini-batches of `batch`, the last mini-batch short unless drop_last. The lists of all ranks have the same
// length: one cursor describes the progress of all ranks (job/batches/batch_schedule.h). The worker of a rank does not
// affect the rank's samples: at a resize, every position still goes to exactly one reader.
//
// With weights, the list of epoch e is n draws with replacement by the seed seed + e (weighted_draws.h), instead of the
// permutation. In groups of classes, a rank's list has ceil(n / N) places, rounded down to whole groups, and each
// mini-batch is drawn on its own (class_groups.h). Both ways, a sample may occur several times in an epoch, or never.
//
// With buckets, the list of an epoch, by permutation or by weights, is ordered anew by the lengths of samples
// (length_buckets.h), for the batch size of the epoch's first step: a change of the batch size in mid-epoch keeps the
// order, as the steps before the change have taken their samples from that order.

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "core/base/ids.h"
#include "core/data/sampling/class_groups.h"
#include "core/data/sampling/length_buckets.h"
#include "core/data/sampling/weighted_draws.h"
#include "core/job/batches/batch_schedule.h"

namespace estrain::data {

// Returns PyTorch's order of samples: the same integers as torch.randperm(n,
// generator=torch.Generator().manual_seed(seed)) on the CPU. Torch's Mersenne twister uses only the low 32 bits of the
// seed: seeds with a difference of 2^32 give the same order, in torch as in estrain.
std::vector<int64_t> randperm(int64_t n, uint64_t seed);

// From this size on torch draws 64 bits per element and builds the permutation inside out.
constexpr int64_t randperm_wide_from = 0xFFFFFFFF / 20;

using batches::Cursor;

// The length of every EST's list: ceil(samples / ests), rounded down to a multiple of `group` if the list consists of
// groups of samples (0: no groups).
constexpr int64_t samples_of_each(int64_t samples, int64_t ests, int64_t group) {
  const int64_t each = samples / ests + (samples % ests != 0);
  return group > 0 ? each - each % group : each;
}

// Thread-safe: every member may be called from any thread.
class EpochSampler {
 public:
  struct Options {
    int64_t dataset_size = 0;  // n
    int64_t ests = 1;          // N
    int64_t batch = 1;         // samples per EST and step
    bool shuffle = true;
    bool drop_last = false;
    uint64_t seed = 0;
    std::vector<batches::BatchChange> changes = {};  // of the batch size
    std::vector<double> weights = {};                // of each sample; empty: no draws by weight
    std::vector<int64_t> labels = {};                // in groups of classes: the class of each sample
    int64_t per_class = 0;                           // samples of a group; 0: no groups
    std::vector<int64_t> lengths = {};               // with buckets: the length of each sample
    int64_t bucket = 0;                              // steps of a bucket; 0: no buckets
  };

  // Throws Fault::infeasible if an epoch would have no mini-batch: an empty data set, or drop_last with a batch larger
  // than an EST's share, now or after a change; or if a mini-batch needs more classes than have samples.
  explicit EpochSampler(const Options& options);
  EpochSampler(int64_t dataset_size, int64_t ests, int64_t batch, bool shuffle, bool drop_last, uint64_t seed);

  // Takes other changes of the batch. Throws as the constructor. Call this function while nothing is read.
  void change_batches(std::vector<batches::BatchChange> changes);

  int64_t ests() const { return options_.ests; }
  int64_t batch() const { return schedule_.largest_batch(); }            // size of the job's largest mini-batch
  int64_t samples_per_est() const { return schedule_.samples_per_est; }  // length of a rank's list
  const batches::BatchSchedule& schedule() const { return schedule_; }   // where a step stands in these lists

  // The samples of a rank's mini-batch of the step after `step`, in order.
  std::vector<int64_t> indices(Step step, VirtualRank rank) const;
  // The samples of a rank from the cursor on, without the `first`, as many as fit into `out`.
  void indices(Cursor cursor, VirtualRank rank, int64_t first, std::span<int64_t> out) const;

  // Whether a sample may occur several times in an epoch by choice. Places then tell its occurrences apart.
  bool draws_again() const { return weighted_ || groups_; }
  // The place of a rank's sample, counted from the cursor, among all samples of the epoch.
  int64_t place_of(Cursor cursor, VirtualRank rank, int64_t number) const {
    return (cursor.samples + number) * options_.ests + rank.value;
  }

 private:
  using Order = std::vector<int64_t>;
  struct CachedOrder {
    Epoch epoch{-1};
    std::shared_ptr<const Order> order;
  };

  void check_groups() const;
  void make_schedule();
  std::shared_ptr<const Order> order(Epoch epoch) const;
  Order list_of(Epoch epoch) const;

  Options options_;
  std::optional<WeightedDraws> weighted_;
  std::optional<ClassGroups> groups_;
  std::optional<LengthBuckets> buckets_;
  batches::BatchSchedule schedule_;
  mutable std::mutex mutex_;
  mutable CachedOrder cache_[2];  // by parity: readers may be in an epoch and, a few batches ahead, in the next
};

}  // namespace estrain::data
