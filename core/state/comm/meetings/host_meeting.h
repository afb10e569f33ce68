#pragma once
// Requests of a host's workers to the host's courier, in a job over several hosts. The courier then exchanges with the
// other hosts (core/hosts). The last worker to arrive at a meeting of the host asks for all, and the rest wait for this
// worker as in every meeting.
//
//   asked, answered   how often; a request is open while the two differ
//   agreed            the last step that all hosts have whole, as far as this host knows; 0: no step
//
// 1. One request at a time: no worker asks before the last request is answered.
// 2. `agreed` is stored before the answer. A step that another host may have committed is therefore committed here too
//    (StageControl::repair()), even if a process ends in between.
// All accesses are sequentially consistent.

#include <cstdint>

#include "core/base/ids.h"
#include "core/state/comm/memory/memory_header.h"

namespace estrain::comm {

enum class HostAsk : uint32_t {
  nothing,
  sums,        // all partial sums of the host are written: the sum over all hosts, and the results of all ESTs
  commit,      // the step is whole on this host: whether it is whole on all
  evaluation,  // the host's batches of an evaluation are done: the batches of the other hosts
  exchange,    // the id by which the GPUs of all hosts meet: the first host's (MeetingPlaces::offered_exchange_id)
};

struct HostRequest {
  HostAsk what = HostAsk::nothing;
  Step step;  // the step before the one under way, or the evaluated step
  uint32_t sequence = 0;
};

class HostMeeting {
 public:
  explicit HostMeeting(MemoryHeader& words) : words_(words) {}

  // For the workers. `bell`: eventfd for waking the courier. Sleeps until the courier has answered. False on abort.
  bool ask(HostAsk what, Step step, int bell);
  // The two halves of ask().
  void post(HostAsk what, Step step, int bell);
  bool wait_answer();
  // Tells whether the coordinator had been asked to pause when the last step was agreed on.
  bool pause_agreed() const { return words_.pause_agreed.load() != 0; }

  // The courier's.
  HostRequest open_request() const;  // HostAsk::nothing: no open request
  uint32_t answered() const { return words_.host_answered.load(); }
  void agree(Step step, bool pause);
  Step agreed() const { return Step(words_.agreed.load()); }
  void forget_agreement() { words_.agreed.store(0); }
  void answer(const HostRequest& request);

 private:
  friend class StageControl;
  void open();
  void wake_all();

  MemoryHeader& words_;
};

}  // namespace estrain::comm
