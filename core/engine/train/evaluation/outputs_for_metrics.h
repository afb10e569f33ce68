#pragma once
// The outputs of an evaluation as files, for train.metrics_file (users_metrics.h).
//
// On a full disk the evaluation waits until there is room, and training with the evaluation.
//
// Over several hosts, each host writes the rows of its own batches. All rows come to the coordinator's host, which
// calls the user's function, and the function's numbers go to all hosts: every host has the same numbers, whatever its
// processor.
//
// The rows travel in rounds of a megabyte (core/state/comm/output_mail.h). The last worker of each host to arrive at
// the meeting after the evaluation calls these functions, in the same order on all hosts.

#include <functional>
#include <span>
#include <vector>

#include "core/base/ids.h"
#include "core/engine/train/job/stage_order.h"
#include "core/engine/train/workplace/workplace.h"

namespace estrain::train {

// Calls `write`, and again every half second as long as the disk or the user's quota is full. Says so once in the
// worker's log, and in the list of processes. Returns without a result if the stage is aborted: the evaluation begins
// anew later. `pulse`: of this worker. Throws as `write` for all other reasons.
void when_there_is_room(comm::JobMemory& memory, comm::WorkerPulse& pulse, const std::function<void()>& write);

class HostsCorrespondence {
 public:
  // Of a stage over several hosts, after the hosts have exchanged the results of the evaluation of `step`.
  HostsCorrespondence(Workplace& place, const StageOrder& order, Step step);

  // The coordinator's host, where the rows come together.
  bool leads() const;
  // Sends the rows of this host's batches in place.rows. On the coordinator's host, puts the rows of all other hosts
  // beside its own. Returns false on abort. Throws Fault::corrupt, and as checkpoint::OutputParts.
  bool bring_rows_together();
  // Replaces `numbers` by those of the coordinator's host. Returns false on abort.
  bool share(std::span<double> numbers);

 private:
  using Next = std::function<size_t(std::span<std::byte>)>;                   // fills the beginning, returns its bytes
  using Take = std::function<void(size_t host, std::span<const std::byte>)>;  // of another host

  bool exchange(const Next& next, const Take& take);
  bool is_own_batch(int64_t batch) const;

  Workplace& place_;
  const StageOrder& order_;
  const Step step_;
  uint64_t round_ = 0;
};

// Exchanges the results of the evaluation of `step` with the other hosts. Returns false on abort.
bool exchange_results(Workplace& place, Step step);

}  // namespace estrain::train
