#include "core/state/audit/audit.h"

#include <algorithm>
#include <utility>

namespace estrain::audit {
namespace {

enum Row : size_t { kOwners, kAuditors, kThird, kFourth };

void nothing() {}

}  // namespace

Audit::Audit(Auditee& auditee, comm::AuditBoard board, Order order, Step& vouched)
    : auditee_(auditee), board_(board), order_(std::move(order)), vouched_(vouched) {}

bool Audit::is_due(Step step) const {
  return (order_.every > 0 && step.next().value % order_.every == 0) || board_.is_asked_for(step);
}

void Audit::begin_step(Step step) {
  step_ = step;
  plan_.reset();
  if (is_due(step)) plan_ = roles_in(board_.passed(), order_.party);
}

uint64_t* Audit::row_of(VirtualRank rank) {
  return plan_ && is_this(plan_->owner) && plan_->rank == rank ? board_.row(kOwners) : nullptr;
}

bool Audit::holds() {
  if (!plan_) return true;
  if (is_this(plan_->auditor)) auditee_.compute(step_, plan_->rank, board_.row(kAuditors));
  return auditee_.meet(nothing) && (board_.digests(kOwners) == board_.digests(kAuditors) || compute_third_run());
}

bool Audit::is_sound() {
  if (!plan_) return true;
  note_damage();
  const auto pass = [this] {
    if (board_.damaged() < 0) board_.note_passed(step_.next());
  };
  if (!auditee_.meet(pass)) return false;
  if (board_.damaged() >= 0) return end_by_damage();
  if (is_this(plan_->owner) || is_this(plan_->auditor)) vouched_ = step_.next();
  return true;
}

// In this worker's part of the committed state.
void Audit::note_damage() {
  const auto stride = order_.party.ranges.size();
  if (const auto damaged = auditee_.find_damage(step_, static_cast<size_t>(order_.worker.value), stride))
    board_.note_damage(static_cast<int64_t>(*damaged));
}

bool Audit::end_by_damage() {
  if (order_.worker == WorkerRank(0)) throw_damaged();
  return wait_for_abort();
}

// The state may have changed between the two runs: then no device is to blame.
bool Audit::compute_third_run() {
  const WorkerRank third = plan_->judge.value_or(plan_->owner);
  if (is_this(third)) auditee_.compute(step_, plan_->rank, board_.row(kThird));
  if (!plan_->judge && !plan_->is_blind() && is_this(plan_->auditor))
    auditee_.compute(step_, plan_->rank, board_.row(kFourth));
  note_damage();
  if (!auditee_.meet(nothing)) return false;
  if (board_.damaged() >= 0) return end_by_damage();
  std::vector<std::vector<uint64_t>> rows;
  for (size_t row = 0; row < comm::AuditBoard::kRows; ++row) rows.push_back(board_.digests(row));
  throw_if_wrong(judge(*plan_, rows));
  return wait_for_abort();
}

// The throwing worker does not come to the meeting, so the other workers wait until the launcher aborts the stage.
bool Audit::wait_for_abort() {
  auditee_.meet(nothing);
  return false;
}

void Audit::throw_if_wrong(Verdict verdict) {
  if (!is_this(verdict == Verdict::auditor ? plan_->auditor : plan_->owner)) return;
  if (verdict == Verdict::undecided && !plan_->is_blind()) throw_undecided();
  const std::string against = plan_->is_blind() ? "a second result of this device itself"
                              : plan_->judge    ? "the result of two others"
                                                : "the result of another one, which repeats it";
  throw AuditError(Error::make(Fault::device,
                               "wrong results in the audit of step {}: {} of virtual rank {} differs from {}; no audit "
                               "vouches for what this device computed after step {}",
                               step_.next(), difference(), plan_->rank, against, vouched_)
                       .caused_by("wrong_results"),
                   vouched_);
}

void Audit::throw_undecided() const {
  const auto words = [this](WorkerRank worker) {
    return fmt::format("worker {} ({})", worker, order_.party.kinds[static_cast<size_t>(worker.value)]);
  };
  throw AuditError(
      Error::make(Fault::device,
                  "the audit of step {} cannot tell which device is wrong: {} and {} get different bits for "
                  "{} of virtual rank {}, and further runs do not settle it",
                  step_.next(), words(plan_->owner), words(plan_->auditor), difference(), plan_->rank)
          .caused_by("audit_undecided"),
      vouched_);
}

// A checkpoint of the damaged state itself may be a copy of the damaged memory.
void Audit::throw_damaged() const {
  const Step before(std::max<int64_t>(step_.value - 1, 0));
  throw AuditError(
      Error::make(Fault::corrupt, "the audit of step {} found the state damaged in memory: {} is not what was written",
                  step_.next(), auditee_.name_of_state(static_cast<size_t>(board_.damaged())))
          .caused_by("damaged_state"),
      std::min(board_.newest(), before));
}

// Returns the name of the first different result.
std::string Audit::difference() const {
  const std::vector<uint64_t> one = board_.digests(kOwners), other = board_.digests(kAuditors);
  return auditee_.name_of_result(static_cast<size_t>(std::ranges::mismatch(one, other).in1 - one.begin()));
}

}  // namespace estrain::audit
