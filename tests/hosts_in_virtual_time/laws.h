#pragma once
// Invariants of every schedule of a run over several hosts. The numbers are the numbers of core/hosts/PROTOCOL.md,
// "Laws of the simulation".

#include <string>

namespace estrain::hosts_in_virtual_time {

enum class Law {
  one_leader = 1,           // at most one host leads, saves its last state, or is about to lead
  nothing_lost = 2,         // a host that resumes the run holds every step committed by a coordinator, whole
  no_record_lost = 3,       // and every record missing in the run's files
  one_term = 4,             // no coordinator commits a step once a later coordinator has led from an earlier step
  one_step_apart = 5,       // hosts of a stage are at most one step apart
  minority_gives_up = 6,    // a coordinator gives up if, and only if, most hosts may have left and one could lead
  no_old_orders = 7,        // no agent follows a coordinator of an earlier term
  ended_stays_ended = 8,    // no host continues a run that ended as it should
  everybody_ends = 9,       // once disturbances stop, the run continues to its end, or all hosts stop
  who_can_leads = 10,       // where locks are seen, no host stops that could have continued
  sees_what_it_leads = 11,  // no host leads without seeing the run directory
  most_are_behind = 12,  // where locks are not seen, most of the last stage's hosts back the host that takes the lease
  openings_end = 13,     // a stage opens, or a host that has not opened the stage is set aside
  stages_advance = 14,   // an open stage commits a step, or ends
  living_are_kept = 15,  // no host takes a host for silent that lives, and that it can reach
  accusers_stay = 16,    // of two hosts that report each other alone, however far apart, one stays
};

inline std::string words_for(Law law) {
  static constexpr const char* words[] = {
      "",
      "there is one leader",
      "no committed step is lost",
      "no record is lost",
      "an earlier coordinator commits nothing",
      "hosts are one step apart",
      "a coordinator gives up if, and only if, most hosts may have left it",
      "nobody follows an earlier coordinator",
      "a run that has ended stays ended",
      "everybody goes on or stops",
      "who can lead does",
      "who leads sees the run directory",
      "who takes a lease that locks do not protect has most hosts behind it",
      "the opening of a stage ends",
      "an open stage commits a step, or ends",
      "a host that lives and can be reached is not taken for silent",
      "of two hosts that report each other one stays",
  };
  return words[static_cast<int>(law)];
}

}  // namespace estrain::hosts_in_virtual_time
