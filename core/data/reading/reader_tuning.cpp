#include "core/data/reading/reader_tuning.h"

#include <algorithm>

namespace estrain::data {

ReaderTuning::Reading ReaderTuning::observe(double waited, double interval) {
  waited_ += waited;
  time_ += interval;
  if (++batches_ < kWindow) return now_;
  if (time_ > 0) judge(waited_ / time_, waited_);
  batches_ = 0;
  waited_ = time_ = 0;
  return now_;
}

void ReaderTuning::judge(double share, double waited) {
  const bool failed = has_failed(share, waited);
  if (failed) take_back();
  if (trial_ != Trial::none) idle_ = 0;
  trial_ = Trial::none;
  if (failed) return;
  ahead_rest_ = std::max(0, ahead_rest_ - 1);
  if (rest_ > 0) {
    --rest_;
    return;
  }
  trial_ = next_trial(share);
  if (trial_ == Trial::none) return;
  before_ = now_;
  waited_before_ = waited;
  idle_ = 0;
  if (trial_ == Trial::further_ahead) {
    now_.prefetch = std::min(2 * now_.prefetch, most_.prefetch);
  } else {
    now_.readers += trial_ == Trial::another_reader ? 1 : -1;
  }
}

bool ReaderTuning::has_failed(double share, double waited) const {
  switch (trial_) {
    case Trial::none:
      return false;
    case Trial::further_ahead:
      return waited > 0.75 * waited_before_;
    case Trial::another_reader:  // ideally 1 - 1 / readers
      return waited > (1 - 0.5 / static_cast<double>(now_.readers)) * waited_before_;
    case Trial::one_less:
      return share > kTooLong;
  }
  return false;
}

void ReaderTuning::take_back() {
  now_ = before_;
  (trial_ == Trial::further_ahead ? ahead_rest_ : rest_) = kRestWindows;
}

ReaderTuning::Trial ReaderTuning::next_trial(double share) {
  idle_ = share < kNone ? idle_ + 1 : 0;
  if (share > kTooLong && now_.prefetch < most_.prefetch && ahead_rest_ == 0) return Trial::further_ahead;
  if (share > kTooLong && now_.readers < most_.readers) return Trial::another_reader;
  if (idle_ >= kIdleWindows && now_.readers > least_readers_) return Trial::one_less;
  return Trial::none;
}

}  // namespace estrain::data
