#pragma once
// The result of `estrain plan`, printed as a table or as JSON.

#include <cstdint>
#include <string>
#include <vector>

#include "cmd/plan_hosts.h"
#include "core/planning/plan/changes/proposals.h"
#include "core/planning/profile/alternatives.h"
#include "core/planning/profile/plan_inputs.h"

namespace estrain::cmd {

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
  std::vector<double> crowding;       // plan::Job::crowding
  std::string database;
  int64_t batch = 1;                       // samples of a mini-batch
  const HostsTable* over_hosts = nullptr;  // nothing: the job is on one host

  const profile::Alternative& best() const;
};

void print_text(const PlanReport& report);
void print_json(const PlanReport& report);

}  // namespace estrain::cmd
