#pragma once
// Tunes a worker's number of reader threads and read-ahead by observing how long the worker waits for mini-batches
// (like DLRover for a job's resources: sample, then adjust). Pure: the caller passes the times.
//
// While waiting takes more than kTooLong of the time, the tuning first tries to read further ahead: this costs only
// memory, and helps if mini-batches differ in reading time. The change is kept if the waiting shortens by a quarter. If
// not, the tuning tries another reader, and keeps the reader only if the waiting shortens by at least half of the
// ideal: if the cores are busy, more threads only slow down computing. A reader is released after a long time with
// almost no waiting. If the release increases the waiting at once, the reader returns and stays for a while.

#include <cstdint>

namespace estrain::data {

class ReaderTuning {
 public:
  static constexpr int kWindow = 32;        // mini-batches observed together
  static constexpr double kTooLong = 0.05;  // fraction of the time
  static constexpr double kNone = 0.005;
  static constexpr int kIdleWindows = 16;  // without waiting before a reader is released
  static constexpr int kRestWindows = 64;  // after a failed try

  struct Reading {
    int64_t readers = 1;   // threads
    int64_t prefetch = 1;  // mini-batches to read ahead
    bool operator==(const Reading&) const = default;
  };
  // Starts from `first`, up to `most`; a value equal in both stays constant.
  ReaderTuning(Reading first, Reading most) : most_(most), now_(first), least_readers_(first.readers) {}

  // The worker waited `waited` seconds for a mini-batch, requested `interval` seconds after the previous one. Returns
  // the values to use from now on.
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
  int rest_ = 0, ahead_rest_ = 0;  // windows until a change of readers, or of read-ahead, is tried again
  double waited_ = 0, time_ = 0;
  double waited_before_ = 0;   // in the window before the change being tried
  Trial trial_ = Trial::none;  // the last change, not yet judged
};

}  // namespace estrain::data
