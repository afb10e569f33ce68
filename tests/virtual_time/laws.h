#pragma once
// Invariants of every schedule, for any events at any time. The output shows the numbers.

#include <string>

namespace estrain::virtual_time {

enum class Law {
  each_step_once = 1,      // a run that reports its end has trained each step exactly once
  stage_apart = 2,         // a stage begins when no worker is in another's loop, and after an aborted stage is repaired
  shares_complete = 3,     // the ranges of a stage contain each EST once, in rank order
  nobody_forgotten = 4,    // each process is in exactly one list of the state, each entry has a process; at the end no
                           // process is left
  nobody_gone_called = 5,  // no action concerns a process known to have ended, or starts an existing process
  each_request_answered = 6,  // exactly once, whatever happens to the job
  each_phase_left = 7,        // once disturbances stop, the job continues and ends
  state_saved = 8,     // a state is held while it is saved; the last state of a run is saved, unless no process is left
                       // to write the state, or two stops, while the disk had no room, gave the state up
  faults_counted = 9,  // a job survives exactly the allowed number of faults in a row at one step
  devices_given_back = 10,  // a reclaim is answered when no process uses the devices
  stopped_in_time = 11,     // a stop aborts the current step after the grace period
  always_decided = 12,      // no event makes decide() throw
};

inline std::string words_for(Law law) {
  static constexpr const char* words[] = {
      "",
      "each step is trained once",
      "a stage begins when nobody is in another one",
      "each EST has one place",
      "nobody is forgotten",
      "nobody who is gone is called",
      "each request is answered once",
      "each phase is left",
      "what is to be saved is saved",
      "faults are counted",
      "reclaimed devices are free when that is said",
      "a stop comes in time",
      "there is a decision for each event",
  };
  return words[static_cast<int>(law)];
}

}  // namespace estrain::virtual_time
