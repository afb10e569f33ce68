#pragma once
// What the workers of one host ask of its courier, where a job has several hosts: the courier exchanges with the other
// hosts what each of them needs (core/hosts). The last worker to arrive at a meeting of the host asks for all, and the
// others wait for it as they always do.

#include <cstdint>

#include "core/base/ids.h"
#include "core/comm/job_memory.h"

namespace estrain::comm {

class HostMeeting {
 public:
  // `doorbell`: eventfd that wakes the courier.
  HostMeeting(JobMemory& memory, int doorbell) : memory_(memory), doorbell_(doorbell) {}

  // Of the step that follows `step`, or of the evaluation at `step`. Sleeps until the courier has answered. False on
  // abort.
  bool ask(HostAsk what, Step step);

 private:
  JobMemory& memory_;
  const int doorbell_;
};

// The courier's: what is asked and not answered; HostAsk::nothing if nothing is.
struct HostRequest {
  HostAsk what = HostAsk::nothing;
  Step step;
  uint32_t sequence = 0;
};
HostRequest open_request(const JobMemory& memory);
void answer(JobMemory& memory, const HostRequest& request);

}  // namespace estrain::comm
