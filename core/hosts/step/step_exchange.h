#pragma once
// The exchange between hosts in a stage, on one host. PROTOCOL.md states the rules.
//
// Each host owns a share of the parameters. While the workers of a host fold their gradients, the host folds the
// workers' partial sums as far as the tree allows, and sends each owner its share. The host finishes the tree over the
// host's share, with the partial sums of all hosts, and sends the sum to all (gradient_sums.h). Sums from other hosts
// overwrite the host's first partial sum; the workers continue as if they had summed all by themselves. Only
// state/comm/sums/reduction_tree.h orders sums. If each host passes on one partial sum, 2 P (H-1)/H values leave and
// reach each of H hosts.
//
// Data from other hosts go to shared memory only if the stage is open and the step is this host's next: a stage may end
// at any moment, with frames under way. The random streams and losses of ESTs go there when all have arrived.
//
// No sockets here: frames come by room_for() and received(), and leave by StepOutbox.

#include <map>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/hosts/exchange/inflow.h"
#include "core/hosts/exchange/outbox.h"
#include "core/hosts/exchange/shared_parts.h"
#include "core/hosts/exchange/wire.h"
#include "core/hosts/step/gradient_sums.h"
#include "core/state/comm/job_memory.h"

namespace estrain::hosts {

class StepExchange {
 public:
  // The memory is laid out and holds the committed state of plan.step; the stage is open in the memory
  // (comm::StageControl), and workers may have begun.
  StepExchange(comm::JobMemory& memory, HostPlan plan, StepOutbox& outbox, size_t piece = floats_of_piece);
  StepExchange(const StepExchange&) = delete;
  StepExchange& operator=(const StepExchange&) = delete;

  const HostPlan& plan() const { return plan_; }
  const SharedParts& parts() const { return parts_; }

  // This host's workers have asked the courier. Throws Fault::mismatch if another host has come to another state.
  void ask(const comm::HostRequest& request);
  // Folds a piece that the host's workers have folded. Call work() again until false, after each ask(), and when
  // workers have rung: frames leave and arrive between two calls. Throws as ask().
  bool work();

  // A frame of this stage, of a kind from `partial` to `evaluation`. Throws Fault::corrupt if it is out of turn.
  std::span<std::byte> room_for(size_t host, const net::FrameHead& head);
  void received(size_t host, const net::FrameHead& head);

  // The stage is over, and this host will not hear from all hosts whether the step is whole everywhere. If this host
  // has told the other hosts that the step is whole here, a host may have committed the step. Then this host must
  // commit the step, too (StageControl::repair() does).
  void keep_whole_step();

  // The time from the workers' question for a sum to the answer.
  struct TimeTaken {
    int64_t exchanges = 0, ns = 0;
  };
  TimeTaken take_pace() { return std::exchange(pace_, {}); }  // since the last call

  // Returns the number of remote workers in the stage: a worker counts once a frame of its host has arrived.
  int64_t workers_begun() const;

 private:
  // The part of another host in a step, without the gradients.
  struct Peer {
    int64_t step = 0;  // of the host's frames
    std::vector<std::byte> context_bytes, evaluation_bytes;
    StepDone said;
    Inflow context, evaluation, done;
    bool begun = false;

    Peer(const SharedParts& parts, size_t host, int64_t step);
    Peer(const Peer&) = delete;
  };

  Inflow& inflow_of(size_t host, uint32_t kind);
  void send_to_all(uint32_t kind, std::span<const std::byte> bytes);

  void send_context();
  void send_done();
  bool all_have_sent(Inflow Peer::*what) const;
  void advance();
  void take_sums();
  void check_bits(size_t host, const StepDone& said) const;  // throws
  void take_commit();
  void take_evaluation();
  void answer();

  comm::JobMemory& memory_;
  const HostPlan plan_;
  StepOutbox& outbox_;
  SharedParts parts_;
  GradientSums sums_;
  std::map<size_t, Peer> peers_;  // [other host]
  int64_t step_;                  // of the next exchange
  comm::HostRequest request_;
  StepDone said_;
  MonotonicTime asked_{};
  TimeTaken pace_;
};

}  // namespace estrain::hosts
