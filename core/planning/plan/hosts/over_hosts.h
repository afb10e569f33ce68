#pragma once
// Assigns ESTs to the hosts of a job, and on each host to its devices: the plan with the shortest step.
//
//   step = max over hosts h of alone_h(n_h) + between(H)
//
// alone_h(n): the step that best_plan() finds for n ESTs on the devices of host h. between(H): the exchange of H hosts
// (core/hosts/step/step_exchange.h). For gradients of B bytes, a host whose range passes on r partial sums sends
// r B (H-1)/H as partial sums and B (H-1)/H as the sum of its share, and receives as much from others. Its link takes
// the larger of the two one byte after another, and three messages follow each other: partial sums, sums, "the step is
// whole". The part that goes during the backward pass is not subtracted: a step may be shorter. So where traffic
// decides, cores of another host stay idle; a slower host gets fewer ESTs. Pure.

#include <cstdint>
#include <string>
#include <vector>

#include "core/planning/plan/plan.h"

namespace estrain::plan {

// From the launcher's host to another one, as measured when that one joined.
struct Link {
  double bytes_per_second = 0;    // above 0
  double round_trip_seconds = 0;  // at least 0
};

struct HostDevices {
  std::string name;
  std::vector<DeviceGroup> groups;
  Link link = {};  // the launcher's own host, the first, has none
};

struct HostsPlan {
  struct Part {
    size_t host = 0;                     // index of the host
    int64_t ests = 0, partial_sums = 0;  // what the host passes on
    Plan plan;                           // on its devices, as if the job had these ESTs alone
  };
  std::vector<Part> hosts;      // in the order of their ranges of ESTs; the launcher's own first
  double compute_seconds = 0;   // of the slowest host, with the exchange among its workers
  double exchange_seconds = 0;  // between hosts
  double step_seconds = 0;
  double bytes_sent = 0;  // by the host that sends most, in a step
  std::string reason;     // one sentence: the bottleneck
};

struct GradientTraffic {
  double bytes = 0;  // of the gradients of all parameters: B
};

// The best plan for each number of hosts that can host all ESTs, the launcher's own always among them; fewest hosts
// first. With more than twelve hosts the sets that are tried are the fastest ones and those with the quickest links.
// Throws Fault::infeasible where no set of hosts can host all ESTs; also as best_plan.
std::vector<HostsPlan> plans_over_hosts(const Job& job, GradientTraffic traffic, const std::vector<HostDevices>& hosts);

// The plan with the shortest step; between equals, the one with fewer hosts.
const HostsPlan& best_of(const std::vector<HostsPlan>& plans);

}  // namespace estrain::plan
