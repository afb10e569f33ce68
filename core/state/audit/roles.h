#pragma once
// The audited mini-batch of a step, and the workers of the audit: pure functions with the same result on all workers of
// a host.
//
// Audits go round over the workers, and over the ESTs of each. The auditor is another worker whose arithmetic gives the
// same bits: at D2 preferably a worker on another kind of device, below D2 a worker on the same kind. A third worker is
// the judge if the two disagree. A worker without such a partner audits itself. A self-audit finds errors that come and
// go, but not a device that is always wrong in the same way.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/ids.h"

namespace estrain::audit {

struct Roles {
  VirtualRank rank;                 // the EST of the audited mini-batch
  WorkerRank owner;                 // computes the mini-batch as a part of the step
  WorkerRank auditor;               // computes the mini-batch a second time
  std::optional<WorkerRank> judge;  // computes it if they disagree; nothing: owner and auditor both repeat it

  bool is_blind() const { return owner == auditor; }
};

// The workers of a host in a stage.
struct Party {
  std::vector<EstRange> ranges;    // by worker
  std::vector<std::string> kinds;  // of the workers' devices: "cpu", "cpu:avx2", "cuda"
  bool any_kind = false;           // all kinds give the same bits (D2)
};

// `number`: the number of earlier audits.
Roles roles_in(int64_t number, const Party& party);

// Tells whether no worker has a partner: all audits are blind.
bool is_blind(const Party& party);

enum class Verdict { owner, auditor, undecided };  // the wrong worker

// Judges the digests of the mini-batch, if owner (rows[0]) and auditor (rows[1]) differ. rows[2] is the judge's.
// Without a judge, rows[2] and rows[3] are the second results of owner and auditor: the worker whose results differ is
// wrong, unless both or neither repeat their results.
Verdict judge(const Roles& plan, const std::vector<std::vector<uint64_t>>& rows);

}  // namespace estrain::audit
