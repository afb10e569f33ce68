#pragma once
// Audits of steps: they find a device that computes wrong results and memory that changes. Equal bits are the measure,
// so there is no tolerance, and a sound run gives no alarm.
//
// A step is audited if audit.every or `estrain audit` asks for it. Then:
//   1. The owner of one mini-batch has noted its results. Another worker, the auditor, computes the mini-batch a second
//      time from the committed state (plan.h). All workers meet and compare.
//   2. After the update has read the committed state for the last time, each worker takes digests of a part of it and
//      compares them with those on record from when it was written. All meet again.
// If all is equal, the step is committed like any other one, and the audit leaves no trace in the bits.
//
// If the results differ, the state is compared first: it may have changed between the two runs. If it has not, a third
// run decides which worker is wrong. That worker throws, and the step is not committed:
// the launcher continues without its device, and the others repeat the step. If the state has changed, one worker
// throws and the run ends, because there is no other copy of it but the checkpoints.
//
// With several hosts, each host audits its own workers. Errors in the update itself (sums of gradients, the optimizer)
// are not audited.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/state/audit/roles.h"
#include "core/state/comm/memory/audit_board.h"

namespace estrain::audit {

// The worker that takes part in an audit.
class Auditee {
 public:
  virtual ~Auditee() = default;

  // Computes the EST's mini-batch of the step after `step` from the state of `step`, and writes the digests of its
  // results to `row` (AuditBoard::row). Changes nothing else.
  virtual void compute(Step step, VirtualRank rank, uint64_t* row) = 0;
  // The first of the digests first, first + stride, … on record for the state of `step` that the state in memory no
  // longer has. Nothing: all are the same, or there is no record.
  virtual std::optional<size_t> find_damage(Step step, size_t first, size_t stride) = 0;
  // Waits for all workers of the host. The last one to arrive calls `for_all` first. False: the stage was aborted.
  virtual bool meet(const std::function<void()>& for_all) = 0;

  // Words for messages: number `word` of a row ("the gradient of fc.weight"); a digest on record ("fc.weight").
  virtual std::string name_of_result(size_t word) const = 0;
  virtual std::string name_of_state(size_t digest) const = 0;
};

class Audit {
 public:
  struct Order {
    WorkerRank worker;  // this one
    Party party;
    int64_t every = 0;  // steps; 0: only on request
  };
  // `vouched`: the newest step for which audits found this worker correct; kept across stages by the caller.
  Audit(Auditee& auditee, comm::AuditBoard board, Order order, Step& vouched);

  // The step after `step` begins.
  void begin_step(Step step);
  bool is_under_way() const { return plan_.has_value(); }
  // The row for the results of that EST's mini-batch, if this step's audit needs them; else null.
  uint64_t* row_of(VirtualRank rank);
  // Call it after this worker's own mini-batches. False: the stage was aborted, or another worker is wrong. Throws
  // AuditError (Fault::device) if this worker is wrong, or nobody can tell who is.
  bool holds();
  // Call it after the update, before the commit. False: the stage was aborted, or the committed state has changed. One
  // worker throws AuditError (Fault::corrupt) in that case.
  bool is_sound();

 private:
  bool is_due(Step step) const;
  bool is_this(WorkerRank worker) const { return worker == order_.worker; }
  bool compute_third_run();
  void note_damage();
  bool end_by_damage();
  void throw_if_wrong(Verdict verdict);
  [[noreturn]] void throw_undecided() const;
  [[noreturn]] void throw_damaged() const;
  std::string difference() const;
  bool wait_for_abort();

  Auditee& auditee_;
  comm::AuditBoard board_;
  const Order order_;
  Step& vouched_;
  Step step_;                  // the current step begins from its state
  std::optional<Roles> plan_;  // nothing: the step is not audited
};

}  // namespace estrain::audit
