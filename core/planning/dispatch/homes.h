#pragma once
// The host that leads a job: that of its launcher, its home. The daemon's own host has the empty name.
//
// A launcher has a worker on its own host (core/hosts/PROTOCOL.md). Devices of the daemon's own host are only given to
// jobs whose home it is, since no agent of the pool is there. A home does not change while the job runs, unless it is
// lost: a job that is to have other devices stops with a checkpoint and goes on from its new home.

#include <map>
#include <optional>
#include <string>

#include "core/planning/dispatch/state.h"

namespace estrain::dispatch {

using Target = std::map<std::string, int64_t>;  // devices by group

bool can_lead(const std::string& home, const Target& target);
// The daemon's own host where it has a part, else the one with most devices.
std::string home_for(const Target& target);

// Devices of a group that are meant for jobs.
int64_t targeted_of(const State& state, const std::string& group);
// Whether one more device of this group would leave the job, which is up, where it is.
bool may_take(const Job& job, const std::string& group);
// A group with a device that is meant for nobody and that the job may take; one where it has others comes first.
std::optional<std::string> spare_group(const State& state, const Job& job);

// Takes back devices on further hosts from a job that cannot be spread. Another job that is up can stay at home: it
// gets devices there that are meant for nobody, in exchange for those that the policy gave it elsewhere.
void settle_on_hosts(const State& state, Job& job);

}  // namespace estrain::dispatch
