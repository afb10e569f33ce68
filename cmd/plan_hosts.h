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
  // `assignment`: devices of several hosts. `own`: the launcher's host; its devices have the name `own`, or no name.
  HostsTable(const placement::Assignment& assignment, std::string own)
      : assignment_(assignment), own_(std::move(own)) {}

  // Takes from `status` the links measured when the hosts joined `run`, and the slowness of each host's devices against
  // the own host. If `status` is null (no launcher at work), measures the links now, to agents that wait for `run`.
  // Throws Fault::peer for a host without a link or an answer, Fault::usage if `status` is null and `run` is empty.
  void measure(const std::string& run, const launch::RunStatus* status);

  // After measure(). `groups`: the kinds of device on this host; elsewhere, a kind counts as fast as here, divided by
  // the slowness. `gradient_bytes`: of all parameters. Throws Fault::infeasible if a kind is missing, or no plan fits.
  void make_plans(const plan::Job& job, const std::vector<plan::DeviceGroup>& groups, double gradient_bytes);

  void print(int64_t batch) const;  // after make_plans(); batch: samples of a mini-batch of one EST
  Json to_json(int64_t batch) const;

 private:
  struct Host {
    plan::HostDevices devices;
    double slowness = 1;  // the time of a mini-batch, divided by the own host's
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
