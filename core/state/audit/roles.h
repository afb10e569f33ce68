#pragma once
// The mini-batch of a step that is audited, and the workers that take part: pure functions with the same result on all
// workers of a host.
//
// Audits go round over the workers, and over the ESTs of each. The auditor is another worker whose arithmetic gives the
// same bits: at D2 one on another kind of device if there is one, below D2 one on the same kind. A third worker is the
// judge if the two disagree. A worker without such a partner audits itself. That finds errors that come and go, but not
// a device that is always wrong in the same way.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/ids.h"

namespace estrain::audit {

struct Roles {
  VirtualRank rank;                 // the EST whose mini-batch is audited
  WorkerRank owner;                 // computes it as a part of the step
  WorkerRank auditor;               // computes it a second time
  std::optional<WorkerRank> judge;  // computes it if they disagree; none: owner and auditor both repeat it

  bool is_blind() const { return owner == auditor; }
};

// The workers of a host in a stage.
struct Party {
  std::vector<EstRange> ranges;    // by worker
  std::vector<std::string> kinds;  // of their devices: "cpu", "cpu:avx2", "cuda"
  bool any_kind = false;           // all kinds give the same bits (D2)
};

// `number`: how many audits there were before.
Roles roles_in(int64_t number, const Party& party);

// Whether no worker has a partner: all audits are blind.
bool is_blind(const Party& party);

enum class Verdict { owner, auditor, undecided };  // who is wrong

// Digests of the mini-batch, if those of owner (rows[0]) and auditor (rows[1]) differ. rows[2] is the judge's. Without
// a judge, rows[2] and rows[3] are the second results of owner and auditor: the one whose results differ is wrong,
// unless both or neither repeat theirs.
Verdict judge(const Roles& plan, const std::vector<std::vector<uint64_t>>& rows);

}  // namespace estrain::audit
