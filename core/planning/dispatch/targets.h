#pragma once
// Corrections of the number of devices that each job is to have, for rules that policies do not know: devices that are
// there, those that are given back, an owner's minimum; and the order of the queue.

#include <map>
#include <string>
#include <vector>

#include "core/planning/dispatch/state.h"

namespace estrain::dispatch {

int64_t wanted(const Job& job, const std::string& group);  // devices of the group that it is to have

// 2^(-the user's part of all usage x users)
class FairShares {
 public:
  FairShares(const State& state, double now);
  double of(const std::string& user) const;

 private:
  std::map<std::string, double> used_;  // device-seconds that are not forgotten
  double all_ = 0;
};
// Jobs that may run: those of higher priority first, then those whose users have had less of late. Gives jobs that
// leave it to the pool a type of device.
std::vector<Job*> queue(State& state, double now);

// One device of this group less is meant for the job.
void lessen(Job& job, const std::string& group);
// No more devices are meant for jobs than there are.
void make_fit(State& state);
// Devices that were taken from jobs for somebody of higher right go back to them, when there are some again. While
// a job is offered no devices (Job::no_growth_before), neither function sets any aside for it.
void give_back_owed(State& state, double now);
// A job of these that runs keeps what its owner wants it to keep, at the cost of others.
void keep_least(State& state, const std::vector<Job*>& jobs, double now);

}  // namespace estrain::dispatch
