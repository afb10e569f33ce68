#pragma once
// Audits of steps find a device that computes wrong results, and memory that changes. Equal bits are the measure, so an
// audit has no tolerance, and a sound run gives no alarm.
//
// A step is audited if audit.every or `estrain audit` asks for an audit. Then:
//   1. The owner of one mini-batch has noted the results. Another worker, the auditor, computes the mini-batch a second
//      time from the committed state (roles.h). All workers meet and compare.
//   2. After the update has read the committed state for the last time, each worker takes digests of a part of this
//      state and compares these with the digests on record from the writing of the state. All meet again.
// If all is equal, the step is committed like any other step, and the audit leaves no trace in the bits.
//
// If the results differ, the state is compared first: it may have changed between the two runs. If the state has not
// changed, a third run decides which worker is wrong. The wrong worker throws, and the step is not committed: the
// launcher continues without the worker's device, and the other workers repeat the step. If the state has changed, one
// worker throws and the run ends, because only the checkpoints have another copy of the state.
//
// With several hosts, each host audits its own workers. Errors in the update itself (sums of gradients, the optimizer)
// are not audited.

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/ids.h"
#include "core/state/audit/roles.h"
#include "core/state/comm/memory/audit_board.h"

namespace estrain::audit {

// Ends a worker after an audit with a wrong result: Fault::device (this device computes wrong results, or the audit
// cannot tell which of two devices does) or Fault::corrupt (memory changed).
struct AuditError : Error {
  AuditError(Error error, Step last_good) : Error(std::move(error)), vouched(last_good) {}

  Step vouched;  // the newest step for which audits found this worker, or the state, correct
};

// The worker in an audit.
class Auditee {
 public:
  virtual ~Auditee() = default;

  // Computes the EST's mini-batch of the step after `step` from the state of `step`, and writes the digests of the
  // results to `row` (AuditBoard::row). Changes nothing else.
  virtual void compute(Step step, VirtualRank rank, uint64_t* row) = 0;
  // Compares the state in memory with the digests first, first + stride, … on record for the state of `step`. Returns
  // the first digest that differs; nothing if all are equal, or without a record.
  virtual std::optional<size_t> find_damage(Step step, size_t first, size_t stride) = 0;
  // Waits for all workers of the host. The last worker to arrive calls `for_all` first. False: the stage was aborted.
  virtual bool meet(const std::function<void()>& for_all) = 0;

  // Words for messages: number `word` of a row ("the gradient of fc.weight"); a digest on record ("fc.weight").
  virtual std::string name_of_result(size_t word) const = 0;
  virtual std::string name_of_state(size_t digest) const = 0;
};

class Audit {
 public:
  struct Order {
    WorkerRank worker;  // this worker
    Party party;
    int64_t every = 0;  // steps; 0: only on request
  };
  // `vouched`: the newest step for which audits found this worker correct; kept across stages by the caller.
  Audit(Auditee& auditee, comm::AuditBoard board, Order order, Step& vouched);

  // The step after `step` begins.
  void begin_step(Step step);
  bool is_under_way() const { return plan_.has_value(); }
  // Returns the row for the results of the EST's mini-batch, if this step's audit needs the results; else null.
  uint64_t* row_of(VirtualRank rank);
  // Call this after the worker's own mini-batches. False: the stage was aborted, or another worker is wrong. Throws
  // AuditError (Fault::device) if this worker is wrong, or if the audit cannot tell which worker is wrong.
  bool holds();
  // Call this after the update, before the commit. False: the stage was aborted, or the committed state has changed. If
  // the state has changed, one worker throws AuditError (Fault::corrupt).
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
  Step step_;                  // the current step begins from the state of step_
  std::optional<Roles> plan_;  // nothing: the step is not audited
};

}  // namespace estrain::audit
