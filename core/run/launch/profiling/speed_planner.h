#pragma once
// The companion of a running job (EasyScale, section 3.4): knows the speeds of the devices at this job, from the
// profile at the start and from the stages observed, and makes plans from these speeds. Pure: told the time.

#include <string>
#include <vector>

#include "core/planning/plan/plan.h"
#include "core/planning/profile/plan_inputs.h"
#include "core/planning/profile/profiles.h"
#include "core/run/launch/preflight/devices.h"
#include "core/run/launch/profiling/speed_meter.h"

namespace estrain::launch {

// The number of ESTs of each worker, in worker order.
struct Placement {
  Assignment devices;            // each with its number of ESTs
  std::vector<int64_t> workers;  // ids of running workers; -1: a worker to be started
  plan::Plan plan;
};

// Returns the work of a stage in the form for a profile.
profile::StageSpeed as_stage_speed(const SpeedMeter::MeasuredSteps& span);

class SpeedPlanner {
 public:
  // `spec` must outlive the planner.
  SpeedPlanner(const spec::JobSpec& spec, profile::MachineFacts host, bool allow_mixed)
      : spec_(&spec), host_(std::move(host)), allow_mixed_(allow_mixed) {}

  profile::Profiles profiles;
  const profile::MachineFacts& host() const { return host_; }

  // Takes in the latest measurements, when no worker is unusually slow or fast. `now`: seconds since 1970.
  void learn(const SpeedMeter::MeasuredSteps& span, int64_t now);

  // Returns the times which the present shares should have by the speeds of `span`, which must have steps.
  plan::Plan current(const SpeedMeter::MeasuredSteps& span) const;
  // Returns the shares of the workers of `span`, all included, that let all finish as early as possible.
  Placement balanced(const SpeedMeter::MeasuredSteps& span) const;
  // Returns the best shares over the devices of `held` (kinds; the kinds of the workers of `span` among them). A worker
  // slower or faster than the rest of its kind counts with its own speed. A kind that was never measured counts with
  // the mean of the measured kinds. Throws Fault::infeasible if no device is held.
  Placement best(const SpeedMeter::MeasuredSteps& span, const Devices& held) const;

 private:
  struct Group;
  static std::vector<plan::DeviceGroup> as_devices(const std::vector<Group>& groups);
  plan::Plan evaluated(const SpeedMeter::MeasuredSteps& span, const SpeedMeter::MeasuredSteps& moved) const;
  double computing_seconds(const SpeedMeter::MeasuredSteps& span, size_t worker) const;
  profile::PlanInputs inputs(const Devices& devices) const;
  std::vector<Group> groups(const SpeedMeter::MeasuredSteps& span, const Devices& held,
                            const profile::PlanInputs& inputs) const;

  const spec::JobSpec* spec_;
  profile::MachineFacts host_;
  bool allow_mixed_;
};

}  // namespace estrain::launch
