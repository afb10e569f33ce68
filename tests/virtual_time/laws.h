#pragma once
// Invariants of every schedule, whatever happens to the job and when. The numbers stand in the output.

#include <string>

namespace estrain::virtual_time {

enum class Law {
  each_step_once = 1,   // a run that says it is finished has trained each step, once
  stage_apart = 2,      // a stage begins when nobody is in the loop of another, and not before an aborted one is mended
  shares_complete = 3,  // the ranges of a stage hold each EST once, in rank order
  nobody_forgotten = 4,    // each process is in one list of the state, and nobody in a list lacks a process; at the end
                           // no process is left
  nobody_gone_called = 5,  // no action concerns a process that is known to be gone, or starts one that was there before
  each_request_answered = 6,  // once, whatever becomes of the job
  each_phase_left = 7,        // once nothing disturbs it any more, the job goes on, and ends
  state_saved = 8,     // what is saved is held, and the last state of a run that did not fail is saved if it can be
  faults_counted = 9,  // a job survives as many faults in a row at one step as it may, and not one more or less
  devices_given_back = 10,  // whoever reclaims devices is answered when no process is on them
  stopped_in_time = 11,     // a stop gives up the step under way after the grace
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
