#pragma once
// A host goes on with a run whose coordinator is lost: it takes the run directory's lock, writes the state of its
// memory as an ordinary checkpoint, and replaces its agent by `estrain train --resume`. Nothing here knows other hosts;
// succession.h decides when.

#include <optional>
#include <set>
#include <string>

#include "core/base/files/unique_fd.h"
#include "core/hosts/exchange/host_plan.h"
#include "core/hosts/succession/succession.h"
#include "core/run/launch/launcher/processes/processes.h"
#include "core/state/run_directory/run_directory.h"
#include "core/state/run_directory/term.h"

namespace estrain::hosts {

// Whether this host is refused a lock that the coordinator, which is at work, has.
bool sees_locks(const run_directory::RunDirectory& directory);

struct Lease {
  LeaseAnswer answer = LeaseAnswer::held;
  std::optional<UniqueFd> lock;  // taken
};
// `known`: who led, and the last stage that this host opened under it. Where hosts do not see each other's locks, it
// may take half a minute: the owner before is watched.
Lease take_lease(const run_directory::RunDirectory& directory, const run_directory::Term& known, bool sees_locks);

int64_t newest_checkpoint(const run_directory::RunDirectory& directory);  // its step; 0: there is none

// Writes the committed state of the memory as a checkpoint, and the records from `records_from` on that the run's files
// lack. No worker is in its loop. False: the checkpoint could not be written.
bool save_state(const run_directory::RunDirectory& directory, const launch::SharedDescriptors& shared,
                int64_t records_from);

// The devices of the last stage that are left: those of `own`, the host that leads now, and of `others`.
std::string devices_left(const HostPlan& last, const std::string& own, const std::set<std::string>& others);

// This process becomes the launcher. Throws Fault::io where that fails.
[[noreturn]] void become_coordinator(const run_directory::RunDirectory& directory, const HostPlan& last,
                                     const std::string& devices, const std::string& own, UniqueFd lock);

}  // namespace estrain::hosts
