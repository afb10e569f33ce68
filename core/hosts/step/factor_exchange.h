#pragma once
// The factors of gradients between hosts (core/state/comm/gradient_factors.h): which parameters' factors are sent, and
// the factors on their way.
//
// Factors are chosen once in a stage, in its third step, by offers that all hosts know: the sizes of factors, the time
// of their product, and the time for which the host's workers have waited for the sums of the second step. The rule is
// plan::choice_of().

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "core/hosts/exchange/inflow.h"
#include "core/hosts/exchange/outbox.h"
#include "core/hosts/exchange/shared_parts.h"
#include "core/planning/plan/factors.h"
#include "core/state/comm/gradient_factors.h"
#include "core/state/comm/job_memory.h"

namespace estrain::hosts {

class FactorExchange {
 public:
  // Before the first step of a stage. No offer of an earlier stage, and no gradient, is left where offers are.
  // `plan`, `parts` and `outbox` outlive this object.
  FactorExchange(comm::JobMemory& memory, const HostPlan& plan, const SharedParts& parts, StepOutbox& outbox);

  // The bytes of a host's offers, and the offers of this host's first EST. All hosts have the same number of bytes.
  size_t offer_bytes() const;
  std::vector<std::byte> offers(double waited_seconds) const;
  // Chooses by the offers of all hosts, [host], and tells the host's workers. Once in a stage, between two steps.
  void choose(const std::vector<std::span<const std::byte>>& offers);
  const std::vector<bool>& chosen() const { return is_chosen_; }  // [parameter]; before choose(): none
  struct Summary {
    size_t parameters = 0, gradient_bytes = 0;
    size_t bytes = 0;  // of an EST's factors
    // Parameters that are large enough for factors, and go as sums (plan::FactorChoice).
    size_t without_factors = 0, too_large = 0, too_slow = 0;
  };
  const Summary& summary() const { return summary_; }  // after choose()

  // A step begins. Nothing is sent or received before choose().
  void begin(int64_t step);
  // Sends the factors that the host's workers have written.
  void send_ready();
  // Where the factors of another host's ESTs go. Throws Fault::corrupt for a host without factors.
  Inflow& from(size_t host);
  // A frame of that host has arrived. Tells the workers when the factors of all hosts have arrived.
  void received(size_t host, const net::FrameHead& head);
  // All factors are on their way, or have arrived.
  bool complete() const;
  // The next frames are of the next step.
  void end();

 private:
  struct Chosen {
    size_t parameter = 0, bytes = 0;  // of an EST's factors, with their head
  };

  comm::FactorHead& own_head(size_t parameter) const;  // of this host's first EST
  plan::FactorOffers offers_for(size_t candidate, const std::vector<std::span<const std::byte>>& offers) const;
  bool have_arrived() const;
  std::span<std::byte> place(const Chosen& chosen, VirtualRank rank) const;
  void lay_out();
  bool is_sent() const { return chosen_.empty() || arrival_ == most_arrivals_; }
  void send(std::span<const std::byte> bytes);

  comm::JobMemory& memory_;
  const HostPlan& plan_;
  const SharedParts& parts_;
  StepOutbox& outbox_;
  std::vector<size_t> candidates_;  // parameters whose place can hold factors
  std::vector<bool> is_chosen_;
  std::vector<Chosen> chosen_;        // the last parameter first, as a backward pass completes gradients
  std::map<size_t, Inflow> inflows_;  // [other host]
  Summary summary_;
  size_t most_arrivals_ = 0;  // ESTs of the host's worker with the most
  int64_t step_ = 0;
  // What is sent next: chosen_[number_] of the worker's EST `arrival_`; and the bytes sent before.
  size_t arrival_ = 0, worker_ = 0, number_ = 0;
  uint64_t sent_ = 0;
};

}  // namespace estrain::hosts
