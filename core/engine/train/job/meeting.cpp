#include "core/engine/train/job/meeting.h"

#include <thread>

namespace estrain::train {
namespace {

// Polling the word is only quick if no second thread waits for the core.
int spins(const StageOrder& order) { return order.workers() <= std::thread::hardware_concurrency() ? 2000 : 0; }

}  // namespace

StageMeeting::StageMeeting(comm::BarrierWords& words, comm::JobMemory& memory, const StageOrder& order)
    : pulse_(memory.pulse(order.rank())),
      abort_(memory.gate().abort_word()),
      barrier_(words, abort_, order.workers(), spins(order)) {}

}  // namespace estrain::train
