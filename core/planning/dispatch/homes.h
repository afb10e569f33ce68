#pragma once
// A job's home is the host that leads the job: the host of its launcher. The daemon's own host has the empty name.
//
// A launcher has a worker on its own host (core/hosts/PROTOCOL.md). Only jobs with the daemon's own host as their home
// get devices of this host, since the pool has no agent on it. A home does not change while the job runs, unless the
// home is lost: a job whose new devices need another home stops with a checkpoint and resumes from the new home.

#include <optional>
#include <string>
#include <vector>

#include "core/planning/dispatch/slots.h"
#include "core/planning/dispatch/state.h"

namespace estrain::dispatch {

bool can_lead(const std::string& home, const Target& target);
// Returns the daemon's own host if the target has a part of it, else the host with most devices.
std::string home_for(const Target& target);

// Returns the number of a group's devices meant for jobs.
int64_t targeted_of(const State& state, const std::string& group);
// Returns whether the home of the job, which is up, may stay if the job gets one more device of this group.
bool may_take(const Job& job, const std::string& group);
// Returns whether the job may have devices of this host: if the job, or another job there, is to be alone on its hosts,
// no other job has devices of the host, or is meant to have some.
bool is_open_to(const State& state, const Job& job, const std::string& host);
// Places the jobs of the queue: each waiting job with the devices that the policy chose on as few hosts as possible,
// jobs that are to be alone on their hosts first. A job waits if the hosts left for it have no room; a job that is up
// does not grow onto a host that is not open to it.
void place_together(State& state, const std::vector<Job*>& jobs);
// Returns a group with a spare device for the job: at home, else where the job has devices, else in a rack where the
// job has devices, else any.
std::optional<std::string> spare_group(const State& state, const Job& job);

// Returns the job's target with the same number of devices of each type on as few hosts as possible, of spare devices
// and the job's own (Philly, section 2.3): on the fullest host with room for all, else on the emptiest hosts and a last
// one with just room for the rest. Of as many hosts, those of one rack with room for all, the fullest such rack; else
// of the racks with most room, and a last one with just room for the rest. A host whose rack is not known is a rack of
// its own. A job on several hosts takes devices of the daemon's own host only if this saves a host. `held`: all_held().
Target packed(const State& state, const Job& job, const AllHeld& held);

// Takes devices on further hosts back from a job that cannot be spread. A job that can be spread, and is up, may stay
// at home: in exchange for devices elsewhere, the job gets spare devices at home.
void settle_on_hosts(const State& state, Job& job);

}  // namespace estrain::dispatch
