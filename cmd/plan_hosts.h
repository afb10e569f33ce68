#pragma once
// `estrain plan` for a job over several hosts: how far they are, and the plans for one host, two, and so on.

#include <string>
#include <vector>

#include "core/base/json/json.h"
#include "core/job/placement/assignment.h"
#include "core/planning/plan/hosts/over_hosts.h"
#include "core/run/launch/control/status.h"

namespace estrain::cmd {

class HostsTable {
 public:
  // `assignment`: devices of several hosts; those of the launcher's own host, `own`, have its name or none.
  HostsTable(const placement::Assignment& assignment, std::string own)
      : assignment_(assignment), own_(std::move(own)) {}

  // The links as the run measured them when its hosts joined, and how much slower than the own host each one is there;
  // without a launcher at work, as measured now from here, to agents that wait for the run. Throws Fault::peer where a
  // host does not answer, Fault::usage where there is no run directory.
  void measure(const std::string& run, const launch::RunStatus* status);

  // `groups`: what is known of the kinds of device on this host. A device elsewhere is taken to be as fast as one of
  // its kind here, if no run has shown otherwise. Throws Fault::infeasible for a kind that is not among them.
  void make_plans(const plan::Job& job, const std::vector<plan::DeviceGroup>& groups, double gradient_bytes);

  void print(int64_t batch) const;
  Json to_json(int64_t batch) const;

 private:
  struct Host {
    plan::HostDevices devices;
    double slowness = 1;  // against the own host
  };

  std::vector<std::string> names() const;  // the own one first
  void take_links(const Json& rows);
  std::string devices_of(const plan::HostsPlan& plan) const;

  const placement::Assignment assignment_;
  const std::string own_;
  std::vector<Host> hosts_;
  std::vector<plan::HostDevices> planned_;
  std::vector<plan::HostsPlan> plans_;
};

}  // namespace estrain::cmd
