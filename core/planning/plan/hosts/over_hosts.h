#pragma once
// Assigns ESTs to the hosts of a job, and on each host to its devices: the plan with the shortest step.
//
//   step = max over hosts h of alone_h(n_h) + between(H)
//
// alone_h(n): the step found by best_plan() for n ESTs on the devices of host h. between(H): the exchange of H hosts
// (core/hosts/step/step_exchange.h). For gradients of B bytes, a host whose range passes on r partial sums sends r B
// (H-1)/H as partial sums and B (H-1)/H as the sum of its share, and receives as much from the rest. The host's link
// takes the larger of the two byte after byte, and three messages follow each other: partial sums, sums, "the step is
// whole". The traffic during the backward pass is not subtracted: a step may be shorter. Where traffic decides, cores
// of further hosts stay idle; a slower host gets fewer ESTs.
//
// Gradients go as factors by choice_of() (core/planning/plan/factors.h), where the workers wait for between(H) without
// factors. Of H hosts, host h then sends n_h (H-1) times the factors of an EST in place of the gradient's sums, and
// receives those of the other hosts' ESTs. The workers of a host share the products, which follow the exchange,
// gradient by gradient. Pure.

#include <cstdint>
#include <string>
#include <vector>

#include "core/planning/plan/factors.h"
#include "core/planning/plan/plan.h"

namespace estrain::plan {

// From the launcher's host to another host, as measured when that host joined.
struct Link {
  double bytes_per_second = 0;    // above 0
  double round_trip_seconds = 0;  // at least 0
};

struct HostDevices {
  std::string name;
  std::vector<DeviceGroup> groups;
  Link link = {};       // the first host is the launcher's own, and has no link
  double slowness = 1;  // the time of a product of factors, divided by the first host's; `groups` have own speeds
};

struct HostsPlan {
  struct Part {
    size_t host = 0;                     // index of the host
    int64_t ests = 0, partial_sums = 0;  // the sums passed on by the host
    Plan plan;                           // on the host's devices, as if the job had these ESTs alone
  };
  std::vector<Part> hosts;      // in the order of their ranges of ESTs; the launcher's own first
  double compute_seconds = 0;   // of the slowest host, with the exchange among its workers
  double exchange_seconds = 0;  // between hosts, with the products of factors
  double step_seconds = 0;
  double bytes_sent = 0;  // by the host with most to send, in a step
  int64_t factored = 0;   // gradients that go as factors
  std::string reason;     // one sentence: the bottleneck
};

struct GradientTraffic {
  double bytes = 0;                             // of the gradients of all parameters: B
  std::vector<FactoredGradient> factored = {};  // the gradients that may go as factors
  bool sends_all_factors = false;               // even if the network would be faster
};

// Returns the time of between(H) for H hosts with links like this one, each of which passes on one partial sum. All
// gradients go as sums.
double exchange_seconds(double gradient_bytes, int64_t hosts, const Link& link);

// Returns the best plan for each number of hosts with room for all ESTs, always including the launcher's own; fewest
// hosts first. With more than twelve hosts only the fastest hosts and those with the quickest links are tried as sets.
// Throws Fault::infeasible if no set of hosts can host all ESTs; also as best_plan.
std::vector<HostsPlan> plans_over_hosts(const PlannedJob& job, const GradientTraffic& traffic,
                                        const std::vector<HostDevices>& hosts);

// Returns the plan with the shortest step; between equals, the plan with fewer hosts.
const HostsPlan& best_of(const std::vector<HostsPlan>& plans);

}  // namespace estrain::plan
