#pragma once
// The devices of a pool, their holders and their number.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/planning/dispatch/state.h"
#include "core/planning/scheduling/policy.h"

namespace estrain::dispatch {

Slot* slot(State& state, SlotId id);  // null: the device is no longer the pool's
std::vector<Slot*> slots_of(State& state, JobId id);
std::vector<std::string> names_of(const State& state, JobId id);
// Returns whether the job, holder or guest, is on the device.
inline bool is_on(const Slot& slot, JobId id) { return slot.holder == id || slot.guest == id; }
bool is_guest(const State& state, JobId id);
// Returns whether the job could have the device now: a free one; a guest, one without a guest whose holder is
// Job::beside.
bool may_have(const Slot& slot, const Job& job);
// Both keep the moment of the last event (State::seen) if something changes, and a guest leaves this moment alone.
void give(const State& state, Slot& slot, JobId holder);
void put(const State& state, Slot& slot, Slot::State where);
void free_slots_of(State& state, JobId id);
int64_t capacity(const State& state, const std::string& group);                    // devices for jobs
int64_t free_slots(const State& state, const std::string& group);                  // without a holder
int64_t free_slots(const State& state, const std::string& group, const Job& job);  // that the job may have
int64_t held(const State& state, JobId id, const std::string& group);
int64_t held_in_all(const State& state, JobId id);
Target held_by(const State& state, JobId id);
// The devices that jobs, holders and guests, are on. A walk over all devices: made once for many questions.
using AllHeld = std::map<JobId, Target>;
AllHeld all_held(const State& state);
// Returns the groups of devices for jobs, in the order in which the devices came.
std::vector<std::string> groups_of(const State& state);

// Gives the job devices of these names and no more. A device that the pool does not have, or has given to another job,
// is asked back.
void hold(State& state, JobId id, const std::vector<std::string>& names);

// The clock was set by so many seconds, back if negative. Moments to come stay as far away as they were, and what has
// lasted for a while has lasted as long.
void follow_clock(State& state, double seconds);
// Counts the device-seconds since the last event. If the clock was set back since, the state's moments move along.
void account(State& state, double now);
// Returns what jobs and `at_work` checks leave of the memory of the daemon's host; nothing if this memory is not known.
std::optional<double> memory_left_for_check(const State& state, int64_t at_work);
// Returns whether the daemon's host has memory for another check of a job, beside its jobs and the checks at work.
bool has_memory_for_check(const State& state, int64_t at_work);
// Returns the bytes that the job needs of each of its GPUs; 0: not known, or the job's devices are no GPUs of one host.
double needed_of_gpu(const State& state, const Job& job);
// State::in_use of a host.
double in_use_on(const State& state, const std::string& host);

// Returns the types of all devices of the pool plus these devices, in order.
std::vector<std::string> types_with(const State& state, const std::vector<std::string>& names);

// Throws Fault::infeasible if the policy does not know devices of several types.
void require_known(const scheduling::PolicyChoice& choice, const std::vector<std::string>& types);

}  // namespace estrain::dispatch
