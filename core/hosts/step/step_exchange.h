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
// at any moment, with frames under way. The random streams and losses of ESTs, the word that the step is whole, and the
// results of an evaluation reach all hosts along other hosts (all_gather.h), and so does the mail behind these results.
// They go to shared memory when all have arrived.
//
// Gradients that are products of much smaller factors may go as these factors, from a stage's fourth step on
// (factor_exchange.h): workers then compute the sums of these gradients on each host.
//
// If the GPUs of all hosts sum the gradients (HostPlan::gpus_sum), the workers write the sums to shared memory, and the
// request for sums brings the ESTs' results alone. Before the stage's first step the GPUs' workers get the id by which
// they meet.
//
// No sockets here: frames come by room_for() and received(), and leave by StepOutbox.

#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/hosts/exchange/inflow.h"
#include "core/hosts/exchange/outbox.h"
#include "core/hosts/exchange/shared_parts.h"
#include "core/hosts/exchange/wire.h"
#include "core/hosts/step/all_gather.h"
#include "core/hosts/step/factor_exchange.h"
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

  // A frame of this stage, of a kind from `partial` to `exchange_id`. Throws Fault::corrupt if it is out of turn.
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

  // The first call after the choice returns what was chosen.
  std::optional<FactorExchange::Summary> take_chosen_factors() { return std::exchange(chosen_factors_, {}); }

  // Returns the number of remote workers in the stage: a worker counts once a frame of a step has arrived of its host.
  int64_t workers_begun() const;

 private:
  // The number of bytes that `bytes_of_host` returns for each host.
  template <typename BytesOfHost>
  std::vector<size_t> for_each_host(BytesOfHost&& bytes_of_host) const;
  template <typename Take>  // (host)
  void for_each_other(Take&& take) const;

  int64_t due_step(uint32_t kind) const;
  GradientSums& sums_by_couriers();       // throws Fault::corrupt if the GPUs sum
  FactorExchange& factors_by_couriers();  // throws Fault::corrupt if all gradients go as sums
  Inflow& inflow_of(size_t host, uint32_t kind);
  uint64_t number() const;

  size_t context_bytes(size_t host) const;
  void give_context();
  void give_done();
  StepDone said_by(size_t host) const;
  void advance();
  void take_sums();
  void choose_factors();
  void check_bits(size_t host) const;  // throws
  void take_commit();
  void take_evaluation();
  void open_mails();
  void give_evaluation();
  void take_mail();
  void take_exchange_id();
  void answer();

  comm::JobMemory& memory_;
  const HostPlan plan_;
  StepOutbox& outbox_;
  const size_t piece_;  // floats
  SharedParts parts_;
  std::optional<GradientSums> sums_;       // nothing: the GPUs sum
  std::optional<FactorExchange> factors_;  // nothing: all gradients go as sums
  AllGather contexts_, dones_, evaluations_, exchange_ids_;
  std::deque<AllGather> mails_;  // of rounds with even and with odd numbers; none: the job has no mail
  std::vector<bool> begun_;      // [host]: something of a step of the host has arrived
  int64_t step_;                 // of the next exchange
  comm::HostRequest request_;
  uint64_t mail_round_ = 0;  // of the request; 0: the results
  MonotonicTime asked_{};
  TimeTaken pace_;
  double waited_seconds_ = 0;  // for the sums of the step before
  std::optional<FactorExchange::Summary> chosen_factors_;
};

}  // namespace estrain::hosts
