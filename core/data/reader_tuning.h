#pragma once
// How many reader threads a worker needs: found by looking at how long it waits for its mini-batches (DLRover's way
// with a job's resources: sample, then adjust). Pure: told the times.
//
// Another reader is tried while waiting takes more than kTooLong of the time, and kept only if that shortens the
// waiting by at least half of what it ideally would: where the cores are taken, more threads only take from computing.
// A reader is let go when there has been next to no waiting for long; if it is missed at once, it comes back to stay
// for a while.

#include <cstdint>

namespace estrain::data {

class ReaderTuning {
 public:
  static constexpr int kWindow = 32;        // mini-batches looked at together
  static constexpr double kTooLong = 0.05;  // part of the time
  static constexpr double kNone = 0.005;
  static constexpr int kIdleWindows = 16;  // without waiting before a reader is let go
  static constexpr int kRestWindows = 64;  // after a try that failed

  explicit ReaderTuning(int64_t most) : most_(most) {}

  // A mini-batch was waited for `waited` seconds, `interval` seconds after the one before was asked for. How many
  // readers there are to be, from 1 to `most`.
  int64_t observe(double waited, double interval);
  int64_t readers() const { return readers_; }

 private:
  void judge(double share, double waited);

  int64_t most_, readers_ = 1;
  int batches_ = 0, idle_ = 0, rest_ = 0;
  double waited_ = 0, time_ = 0;
  double waited_before_ = 0;  // in a window with the number before
  int on_trial_ = 0;          // +1, -1: the last change has not been judged yet
};

}  // namespace estrain::data
