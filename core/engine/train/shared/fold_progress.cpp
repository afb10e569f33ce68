#include "core/engine/train/shared/fold_progress.h"

#include <algorithm>

#include "core/state/comm/meetings/bell.h"

namespace estrain::train {
namespace {

constexpr size_t kElementsBetweenBells = 32 << 10;  // 0.1 ms of a fast network

}  // namespace

FoldProgress::FoldProgress(const ModelPlaces& places, comm::JobMemory& memory, WorkerRank worker, int bell)
    : places_(places), progress_(memory.sums()), worker_(worker), bell_(bell), folded_(places.num_parameters()) {}

void FoldProgress::begin_step() {
  std::fill(folded_.begin(), folded_.end(), false);
  begin_ = folded_.size();
  unsaid_ = 0;
}

void FoldProgress::note(size_t parameter) {
  folded_[parameter] = true;
  const size_t before = begin_;
  for (; begin_ > 0 && folded_[begin_ - 1]; --begin_) unsaid_ += places_.elements(begin_ - 1);
  if (begin_ == before) return;
  progress_.note_folded(worker_, static_cast<uint32_t>(folded_.size() - begin_));
  if (unsaid_ < kElementsBetweenBells) return;
  unsaid_ = 0;
  comm::ring(bell_);
}

}  // namespace estrain::train
