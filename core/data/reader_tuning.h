#pragma once
// How many reader threads a worker needs, and how far ahead they should read: found by looking at how long it waits for
// its mini-batches (DLRover's way with a job's resources: sample, then adjust). Pure: told the times.
//
// While waiting takes more than kTooLong of the time, reading further ahead is tried first: it only takes memory, and
// helps where some mini-batches take longer than others. It is kept if it shortens the waiting by a quarter. Where it
// does not, another reader is tried, and kept only if that shortens the waiting by at least half of what it ideally
// would: where the cores are taken, more threads only take from computing. A reader is let go when there has been next
// to no waiting for long; if it is missed at once, it comes back to stay for a while.

#include <cstdint>

namespace estrain::data {

class ReaderTuning {
 public:
  static constexpr int kWindow = 32;        // mini-batches looked at together
  static constexpr double kTooLong = 0.05;  // part of the time
  static constexpr double kNone = 0.005;
  static constexpr int kIdleWindows = 16;  // without waiting before a reader is let go
  static constexpr int kRestWindows = 64;  // after a try that failed

  struct Reading {
    int64_t readers = 1;   // threads
    int64_t prefetch = 1;  // mini-batches ahead of need
    bool operator==(const Reading&) const = default;
  };
  // From `first` on, up to `most`; what is equal in both stays as it is.
  ReaderTuning(Reading first, Reading most) : most_(most), now_(first), least_readers_(first.readers) {}

  // A mini-batch was waited for `waited` seconds, `interval` seconds after the one before was asked for. What there is
  // to be from now on.
  Reading observe(double waited, double interval);
  Reading now() const { return now_; }

 private:
  enum class Trial { none, further_ahead, another_reader, one_less };

  void judge(double share, double waited);
  bool has_failed(double share, double waited) const;
  void take_back();
  Trial next_trial(double share);

  Reading most_, now_, before_;
  int64_t least_readers_;
  int batches_ = 0, idle_ = 0;
  int rest_ = 0, ahead_rest_ = 0;  // windows until another number of readers, and reading further ahead, is tried again
  double waited_ = 0, time_ = 0;
  double waited_before_ = 0;   // in the window before the change that is on trial
  Trial trial_ = Trial::none;  // the last change, which has not been judged yet
};

}  // namespace estrain::data
