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

// Returns whether the file system shows this host the locks of other hosts. The coordinator is at work elsewhere and
// holds the lock of the run directory: if locks are seen, the lock is refused to this host.
bool sees_locks(const run_directory::RunDirectory& directory);

struct Lease {
  LeaseAnswer answer = LeaseAnswer::held;
  std::optional<UniqueFd> lock;  // the lock of the run directory, if `answer` is taken or taken_at_checkpoint
};
// Tries to take the lock of the run directory and to become its owner. `known`: the term that led this host, and the
// last stage opened here in the term. `sees_locks`: the result of sees_locks(). Without it the call may take half a
// minute: a lock that is free proves nothing, so the call watches for signs of the previous owner. Throws Fault::io.
Lease take_lease(const run_directory::RunDirectory& directory, const run_directory::Term& known, bool sees_locks);

int64_t newest_checkpoint(const run_directory::RunDirectory& directory);  // the checkpoint's step; 0: no checkpoint

// Writes the committed state of the memory as a checkpoint, and the records of the steps from `records_from` on that
// the run's files lack. Starts a scribe for the writing, and waits for its end. Must be called only when no worker is
// in its loop. Returns false if the scribe failed.
bool save_state(const run_directory::RunDirectory& directory, const launch::SharedDescriptors& shared,
                int64_t records_from);

// Returns the devices left from the last stage, as a list for --devices: first the devices of `own`, the host that now
// leads, then the devices of `others`, the hosts that this host reaches.
std::string devices_left(const HostPlan& last, const std::string& own, const std::set<std::string>& others);

// Replaces this process by `estrain train --resume` on `devices`, which inherits `lock`. `last` gives the options of
// the last launch that go on. Throws Fault::io on failure.
[[noreturn]] void become_coordinator(const run_directory::RunDirectory& directory, const HostPlan& last,
                                     const std::string& devices, const std::string& own, UniqueFd lock);

}  // namespace estrain::hosts
