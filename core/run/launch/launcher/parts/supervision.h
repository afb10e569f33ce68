#pragma once
// Supervises a run, ten times a second: finds slow workers, and workers that hang or are stopped (sentry.h), and
// notices the allocation's end.

#include "core/run/launch/launcher/parts/losses.h"
#include "core/run/launch/launcher/parts/speeds.h"
#include "core/run/launch/launcher/processes/sentry.h"

namespace estrain::launch {

class Supervision {
 public:
  Supervision(Run& run, Sentry& sentry, Losses& losses, Speeds& speeds)
      : run_(run), sentry_(sentry), losses_(losses), speeds_(speeds) {}

  void look_after();
  // At the end of the run, when the scribe alone is at work.
  void look_after_scribe();

 private:
  void show_life(int64_t now);
  bool allocation_ends(int64_t now);
  void end_hung_scribe(int64_t now);

  Run& run_;
  Sentry& sentry_;
  Losses& losses_;
  Speeds& speeds_;
  int64_t shown_life_ns_ = 0;  // when the run's lock was last touched
};

}  // namespace estrain::launch
