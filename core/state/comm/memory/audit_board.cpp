#include "core/state/comm/memory/audit_board.h"

namespace estrain::comm {

void AuditBoard::note_passed(Step step) {
  words_.audited_step.store(step.value);
  words_.audits.fetch_add(1);
}

void AuditBoard::take_request(Step next) {
  if (words_.audit_request.load() != 0 && words_.audit_request.exchange(0) != 0) words_.audit_step.store(next.value);
}

void AuditBoard::note_damage(int64_t digest) {
  int64_t known = words_.audit_damage.load();
  while ((known < 0 || digest < known) && !words_.audit_damage.compare_exchange_weak(known, digest)) {
  }
}

}  // namespace estrain::comm
