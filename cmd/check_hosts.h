#pragma once
// `estrain check --hosts`: whether the agents of a run can work together with this host.

#include <string>
#include <vector>

#include "core/base/finding.h"
#include "core/job/spec/job_spec.h"

namespace estrain::cmd {

struct AgentsCheck {
  std::string run, list;  // the run directory; hosts as train's --hosts
  double seconds = 0;
  std::string listen = {};  // as train's
};
// The network key, and of each host but this one: whether it answers, with the same program and key; round trip,
// bandwidth, clock; the data files of `spec`, by digest. A host that has not answered after `seconds` is an error.
// Last, who could take the place of this host.
std::vector<Finding> check_agents(const AgentsCheck& check, const spec::JobSpec& spec);

}  // namespace estrain::cmd
