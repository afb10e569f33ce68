#pragma once
// Requests of the workers of one host to its courier, where a job has several hosts. The courier then exchanges with
// the other hosts (core/hosts). The last worker to arrive at a meeting of the host asks for all,
// and the others wait for it as they always do.
//
//   asked, answered   how often; one request is open while they differ
//   agreed            the last step that all hosts have whole, as far as this one knows; 0: none
//
// 1. One request at a time: nobody asks before the last request is answered.
// 2. `agreed` is stored before the answer, so a step that another host may have committed is committed here too
//    (StageControl::repair()), even if a process dies in between.
// All accesses are sequentially consistent.

#include <cstdint>

#include "core/base/ids.h"
#include "core/state/comm/memory/memory_header.h"

namespace estrain::comm {

enum class HostAsk : uint32_t {
  nothing,
  sums,        // all partial sums of the host are written: the sum over all hosts
  commit,      // the step is whole on this host: whether it is on all
  evaluation,  // the host's batches of an evaluation are done: those of the others
};

struct HostRequest {
  HostAsk what = HostAsk::nothing;
  Step step;  // whose successor is under way, or that is evaluated
  uint32_t sequence = 0;
};

class HostMeeting {
 public:
  explicit HostMeeting(MemoryHeader& words) : words_(words) {}

  // The workers'. `bell`: eventfd that wakes the courier. Sleeps until it has answered. False on abort.
  bool ask(HostAsk what, Step step, int bell);
  // The two halves of it.
  void post(HostAsk what, Step step, int bell);
  bool wait_answer();
  // Whether the coordinator had been asked to pause when the last step was agreed on.
  bool pause_agreed() const { return words_.pause_agreed.load() != 0; }

  // The courier's.
  HostRequest open_request() const;  // HostAsk::nothing: there is none
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
