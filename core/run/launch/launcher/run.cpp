#include "core/run/launch/launcher/run.h"

#include <fcntl.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <utility>

#include "core/base/clock.h"
#include "core/job/resources/allocation.h"
#include "core/state/run_directory/passed_spec.h"
#include "core/state/run_directory/worker_library.h"

namespace estrain::launch {
namespace {

UniqueFd new_doorbell() {
  UniqueFd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd) throw system_error("cannot create an event descriptor", errno);
  return fd;
}

}  // namespace

Run::Run(LaunchPlan& plan)
    : spec(std::move(plan.spec)),
      journal(run_directory::RunDirectory(plan.run), spec.logging.every_seconds, false),
      descriptors{comm::JobMemory::create(),
                  new_doorbell(),
                  std::move(plan.lock),
                  run_directory::pass_spec(spec),
                  UniqueFd(::open(run_directory::worker_library().c_str(), O_RDONLY | O_CLOEXEC)),
                  new_doorbell()},
      origin{std::move(plan.checkpoint), std::move(plan.checkpoint_cpu), plan.accepts_data, plan.from_step,
             std::move(plan.changes)},
      memory(descriptors.memory.get(), origin.step) {
  state.run = plan.run;
  state.fault_rules = std::move(plan.fault_rules);
  state.options = plan.options;
  job.ests = spec.job.ests;
  job.from_step = origin.step;
  job.retries = spec.recovery.retries;
  job.host = plan.options.own_host;
  job.grace_seconds = plan.grace_seconds;
  const resources::Allocation allocation = resources::current_allocation();
  state.times.ends = allocation.ends;
  state.cores = allocation.cores;
  state.processes.shared = descriptors.shared();
  state.times.started = MonotonicClock::now();
}

Run::Run(Handover handover)
    : spec(run_directory::read_passed_spec(handover.processes.shared.spec)),
      journal(run_directory::RunDirectory(handover.run), spec.logging.every_seconds, true),
      state(std::move(handover)),
      descriptors{UniqueFd(state.processes.shared.memory),  UniqueFd(state.processes.shared.doorbell),
                  UniqueFd(state.processes.shared.lock),    UniqueFd(state.processes.shared.spec),
                  UniqueFd(state.processes.shared.library), UniqueFd(state.processes.shared.courier)},
      memory(descriptors.memory.get(), 0),
      control(std::make_unique<ControlServer>(state.listener, state.clients)) {
  memory.attach();
}

}  // namespace estrain::launch
