#pragma once
// The exchange between hosts in a stage, as one of them sees it. PROTOCOL.md states the rules.
//
// Each host owns a share of the parameters. While the workers of a host fold their gradients, the host folds their
// partial sums as far as the tree allows, sends each owner its share of them, finishes the tree over its own share with
// those of the others, and sends the sum to all (gradient_sums.h). The sums of the others go to the place of the host's
// first partial sum; its workers go on as if they had summed everything themselves. The order of every sum is
// reduction_tree.h's. Where each host passes on one partial sum, 2 P (H-1)/H values leave and reach each of H hosts.
//
// Nothing that arrives goes to shared memory unless the stage is open and the step is this host's next: a stage may end
// at any moment, with frames of it under way. The random streams and losses of ESTs go there when all of them have
// come.
//
// No sockets here: frames come by room_for() and received(), and leave by Outbox.

#include <map>
#include <utility>
#include <vector>

#include "core/hosts/exchange/inflow.h"
#include "core/hosts/exchange/outbox.h"
#include "core/hosts/exchange/shared_parts.h"
#include "core/hosts/exchange/wire.h"
#include "core/hosts/step/gradient_sums.h"
#include "core/state/comm/job_memory.h"

namespace estrain::hosts {

class StepExchange {
 public:
  // The memory is laid out and holds the committed state of plan.step; the stage is open in it (comm::StageControl),
  // and workers may have begun.
  StepExchange(comm::JobMemory& memory, HostPlan plan, Outbox& outbox, size_t piece = floats_of_piece);
  StepExchange(const StepExchange&) = delete;
  StepExchange& operator=(const StepExchange&) = delete;

  const HostPlan& plan() const { return plan_; }
  const SharedParts& parts() const { return parts_; }

  // This host's workers have asked the courier. Throws Fault::mismatch where another host has come to another state.
  void ask(const comm::HostRequest& request);
  // Folds a piece that the host's workers have folded, so that frames leave and come in between: call it again until it
  // returns false, after each ask(), and when workers have rung. Throws as ask().
  bool work();

  // A frame of this stage, of a kind from `partial` to `evaluation`. Throws Fault::corrupt where it is out of turn.
  std::span<std::byte> room_for(size_t host, const net::FrameHead& head);
  void received(size_t host, const net::FrameHead& head);

  // The stage is over, and this host will not hear from all others whether its step is whole everywhere. Where it has
  // told them that the step is whole here, some may have committed it, and so must this host (StageControl::repair()
  // does).
  void keep_whole_step();

  // The time from the workers' question for a sum to the answer.
  struct Pace {
    int64_t exchanges = 0, ns = 0;
  };
  Pace take_pace() { return std::exchange(pace_, {}); }  // since it was taken last

  // The number of workers on the other hosts that have begun the stage, which means that they have sent something.
  int64_t workers_begun() const;

 private:
  // One other host's part of a step beside its gradients.
  struct Peer {
    int64_t step = 0;  // of its frames
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
  Outbox& outbox_;
  SharedParts parts_;
  GradientSums sums_;
  std::map<size_t, Peer> peers_;  // [other host]
  int64_t step_;                  // of the next exchange
  comm::HostRequest request_;
  StepDone said_;
  int64_t asked_ns_ = 0;
  Pace pace_;
};

}  // namespace estrain::hosts
