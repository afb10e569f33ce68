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
// Checks the network key, and each host but this one: an answer, the same program and key; round trip, bandwidth,
// clock; the data files of `spec`, by digest. A host without an answer after `seconds` is an error. Last, the hosts
// that could take over from this host.
std::vector<Finding> check_agents(const AgentsCheck& check, const spec::JobSpec& spec);

}  // namespace estrain::cmd
