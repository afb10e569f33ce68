#pragma once
// The result of `estrain plan`, printed as a table or as JSON, also for a job over several hosts.

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/json/json.h"
#include "core/job/placement/assignment.h"
#include "core/planning/plan/changes/proposals.h"
#include "core/planning/plan/hosts/over_hosts.h"
#include "core/planning/profile/alternatives.h"
#include "core/planning/profile/plan_inputs.h"
#include "core/run/launch/control/status.h"

namespace estrain::cmd {

// A HostsTable is the plan for a job over several hosts: the links to the hosts, and the plans for one host, two, and
// so on.
class HostsTable {
 public:
  // `assignment`: devices of several hosts. `own`: the launcher's host; its devices have the name `own`, or no name.
  HostsTable(const placement::Assignment& assignment, std::string own)
      : assignment_(assignment), own_(std::move(own)) {}

  // Takes from `status` the links measured when the hosts joined `run`, and the slowness of each host's devices against
  // the own host. If `status` is null (no launcher at work), measures the links now, to agents that wait for `run`.
  // Throws Fault::peer for a host without a link or an answer, Fault::usage if `status` is null and `run` is empty.
  void measure(const std::string& run, const launch::RunStatus* status);

  // After measure(): the least of the bandwidths, and the longest of the round trips.
  plan::Link slowest_link() const;

  // After measure(). `groups`: the kinds of device on this host; elsewhere, a kind counts as fast as here, divided by
  // the slowness. Throws Fault::infeasible if a kind is missing, or no plan fits.
  void make_plans(const plan::PlannedJob& job, const std::vector<plan::DeviceGroup>& groups,
                  const plan::GradientTraffic& traffic);

  void print(int64_t batch) const;  // after make_plans(); batch: samples of a mini-batch of one EST
  Json to_json(int64_t batch) const;

 private:
  std::vector<std::string> names() const;  // the own host first
  void take_links(const Json& rows);
  std::string devices_of(const plan::HostsPlan& plan) const;

  const placement::Assignment assignment_;
  const std::string own_;
  std::vector<plan::HostDevices> hosts_;  // without devices
  std::vector<plan::HostDevices> planned_;
  std::vector<plan::HostsPlan> plans_;
};

// Step time with a number of intra-op threads, with the best plan for the given devices.
struct PlanWithThreads {
  int64_t threads;
  std::string devices;
  double step_seconds;
};

struct PlanReport {
  std::vector<plan::DeviceGroup> groups;  // of the devices at hand; Alternative's shares are indices of groups
  std::vector<profile::Alternative> table;
  bool weighs_offer = false;
  std::vector<plan::Proposal> proposals;  // the benefit of the offered devices
  int64_t own_threads = 1;                // of the spec
  std::vector<PlanWithThreads> threads;   // quickest first; empty: no further numbers requested
  std::vector<profile::Basis> basis;
  std::vector<std::string> measured;  // kinds, by this command
  std::vector<double> crowding;       // plan::PlannedJob::crowding
  std::string database;
  int64_t batch = 1;                          // samples of a mini-batch
  const HostsTable* over_hosts = nullptr;     // nothing: the job is on one host
  std::vector<uint64_t> gpu_bytes = {};       // foretold memory of each of n GPUs, at n - 1; empty: no GPUs at hand
  std::vector<uint64_t> gpu_slot_bytes = {};  // of the optimizer, the same way: a part of gpu_bytes, or in host memory
  std::string gpu_memory = {};  // the same in words, with the memory that a GPU has; empty: nothing to say

  const profile::Alternative& best() const;
};

void print_text(const PlanReport& report);
void print_json(const PlanReport& report);

}  // namespace estrain::cmd
