#include "core/state/comm/memory/stage_gate.h"

namespace estrain::comm {

void StageGate::open() {
  words_.pause_request.store(0);
  words_.stage_end.store(-1);
  words_.abort.store(0);
  words_.stage_started.store(0);
  words_.stage_started_ns.store(0);
}

}  // namespace estrain::comm
