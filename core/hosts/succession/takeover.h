#pragma once
// A host resumes a run whose coordinator is lost: the host takes the run directory's lock, writes the state of its
// memory as an ordinary checkpoint, and replaces its agent by `estrain train --resume`. This file knows no other hosts;
// succession.h decides when a host takes over.

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

// Returns true if a lock of the coordinator, which is at work, is refused to this host.
bool sees_locks(const run_directory::RunDirectory& directory);

struct Lease {
  LeaseAnswer answer = LeaseAnswer::held;
  std::optional<UniqueFd> lock;  // taken
};
// `known`: the term that led this host, and the last stage opened here in the term. If hosts do not see each other's
// locks, the call may take half a minute: the previous owner is watched.
Lease take_lease(const run_directory::RunDirectory& directory, const run_directory::Term& known, bool sees_locks);

int64_t newest_checkpoint(const run_directory::RunDirectory& directory);  // the checkpoint's step; 0: no checkpoint

// Writes the committed state of the memory as a checkpoint, and the records from `records_from` on that the run's files
// lack. No worker is in its loop. Returns false if the checkpoint could not be written.
bool save_state(const run_directory::RunDirectory& directory, const launch::SharedDescriptors& shared,
                int64_t records_from);

// The devices left from the last stage: the devices of `own`, the host that now leads, and of `others`.
std::string devices_left(const HostPlan& last, const std::string& own, const std::set<std::string>& others);

// Makes this process the launcher. Throws Fault::io on failure.
[[noreturn]] void become_coordinator(const run_directory::RunDirectory& directory, const HostPlan& last,
                                     const std::string& devices, const std::string& own, UniqueFd lock);

}  // namespace estrain::hosts
