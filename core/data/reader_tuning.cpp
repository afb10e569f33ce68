#include "core/data/reader_tuning.h"

namespace estrain::data {

int64_t ReaderTuning::observe(double waited, double interval) {
  waited_ += waited;
  time_ += interval;
  if (++batches_ < kWindow) return readers_;
  if (time_ > 0) judge(waited_ / time_, waited_);
  batches_ = 0;
  waited_ = time_ = 0;
  return readers_;
}

void ReaderTuning::judge(double share, double waited) {
  if (on_trial_ != 0) {
    const double enough = 1 - 0.5 / static_cast<double>(readers_);  // ideally 1 - 1 / readers
    const bool failed = on_trial_ > 0 ? waited > enough * waited_before_ : share > kTooLong;
    if (failed) {
      readers_ -= on_trial_;
      rest_ = kRestWindows;
    }
    on_trial_ = 0;
    idle_ = 0;
    if (failed) return;
  }
  if (rest_ > 0) {
    --rest_;
    return;
  }
  idle_ = share < kNone ? idle_ + 1 : 0;
  if (share > kTooLong && readers_ < most_) on_trial_ = 1;
  if (idle_ >= kIdleWindows && readers_ > 1) on_trial_ = -1;
  if (on_trial_ == 0) return;
  readers_ += on_trial_;
  waited_before_ = waited;
  idle_ = 0;
}

}  // namespace estrain::data
