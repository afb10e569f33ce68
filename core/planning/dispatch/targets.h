#pragma once
// Corrections of the number of devices meant for each job, for rules unknown to policies: connected devices, devices
// given back, an owner's minimum; and the order of the queue.

#include <map>
#include <string>
#include <vector>

#include "core/planning/dispatch/state.h"

namespace estrain::dispatch {

int64_t wanted(const Job& job, const std::string& group);  // the number of the group's devices meant for the job

// 2^(-the user's part of all usage x users)
class FairShares {
 public:
  FairShares(const State& state, double now);
  double of(const std::string& user) const;

 private:
  std::map<std::string, double> used_;  // device-seconds not forgotten
  double all_ = 0;
};
// Returns the jobs that may run: jobs of higher priority first, then jobs of users with less use of late. Gives a job a
// type of device at first if the job leaves the type to the pool.
// `guests`: returns guests, which the policies do not see, in place of the others.
std::vector<Job*> queue(State& state, double now, bool guests = false);

// Takes a device of this group from the job's target.
void lessen(Job& job, const std::string& group);
// Shrinks targets until all targets together have no more devices than the pool.
void make_fit(State& state);
// Gives devices taken from jobs for a user of higher right back to these jobs, as devices become available. While a job
// is offered no devices (Job::no_growth_before), give_back_owed() and keep_least() set none aside for it.
void give_back_owed(State& state, double now);
// Lets each running job of `jobs` keep its owner's minimum, and the number of GPUs that holds the job. Other jobs give
// devices up.
void keep_least(State& state, const std::vector<Job*>& jobs, double now);

}  // namespace estrain::dispatch
