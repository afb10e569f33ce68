#pragma once
// `estrain plan` for a job over several hosts: the links to the hosts, and the plans for one host, two, and so on.

#include <string>
#include <vector>

#include "core/base/json/json.h"
#include "core/job/placement/assignment.h"
#include "core/planning/plan/hosts/over_hosts.h"
#include "core/run/launch/control/status.h"

namespace estrain::cmd {

class HostsTable {
 public:
  // `assignment`: devices of several hosts; devices of the launcher's host have its name, `own`, or no name.
  HostsTable(const placement::Assignment& assignment, std::string own)
      : assignment_(assignment), own_(std::move(own)) {}

  // Takes the links measured by the run when the hosts joined, and the slowness of each host's devices against the own
  // host; without a launcher at work, measures now from here, to agents that wait for the run. Throws Fault::peer if a
  // host does not answer, Fault::usage without a run directory.
  void measure(const std::string& run, const launch::RunStatus* status);

  // `groups`: the known facts of the kinds of device on this host. A device elsewhere counts as fast as a device of the
  // same kind here, unless a run has shown another speed. Throws Fault::infeasible for a kind missing in `groups`.
  void make_plans(const plan::Job& job, const std::vector<plan::DeviceGroup>& groups, double gradient_bytes);

  void print(int64_t batch) const;
  Json to_json(int64_t batch) const;

 private:
  struct Host {
    plan::HostDevices devices;
    double slowness = 1;  // against the own host
  };

  std::vector<std::string> names() const;  // the own host first
  void take_links(const Json& rows);
  std::string devices_of(const plan::HostsPlan& plan) const;

  const placement::Assignment assignment_;
  const std::string own_;
  std::vector<Host> hosts_;
  std::vector<plan::HostDevices> planned_;
  std::vector<plan::HostsPlan> plans_;
};

}  // namespace estrain::cmd
