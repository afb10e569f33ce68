#include "core/run/launch/launcher/parts/run.h"

#include <fcntl.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "core/base/clock.h"
#include "core/base/files/files.h"
#include "core/job/resources/allocation.h"
#include "core/job/spec/parsing/parse.h"
#include "core/run/launch/profiling/profiling.h"
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
    : directory(plan.run),
      spec(std::move(plan.spec)),
      descriptors{comm::JobMemory::create(),
                  new_doorbell(),
                  std::move(plan.lock),
                  run_directory::pass_spec(spec),
                  UniqueFd(::open(run_directory::worker_library().c_str(), O_RDONLY | O_CLOEXEC)),
                  new_doorbell()},
      origin{std::move(plan.checkpoint), std::move(plan.checkpoint_cpu), plan.accepts_data, plan.from_step,
             std::move(plan.changes)},
      printer(spec.logging.every_seconds),
      adviser(spec, ChangeHistory()) {
  state.run = plan.run;
  state.fault_rules = std::move(plan.fault_rules);
  state.options = plan.options;
  job.ests = spec.job.ests;
  job.from_step = origin.step;
  job.retries = spec.recovery.retries;
  job.host = plan.options.own_host;
  job.grace_seconds = plan.grace_seconds;
  const resources::Allocation allocation = resources::current_allocation();
  state.ends_ns = allocation.ends_ns;
  state.cores = allocation.cores;
  state.shared = descriptors.shared();
  state.started_ns = monotonic_ns();
}

Run::Run(Handover handover)
    : directory(handover.run),
      spec(run_directory::read_passed_spec(handover.shared.spec)),
      state(std::move(handover)),
      descriptors{UniqueFd(state.shared.memory), UniqueFd(state.shared.doorbell), UniqueFd(state.shared.lock),
                  UniqueFd(state.shared.spec),   UniqueFd(state.shared.library),  UniqueFd(state.shared.courier)},
      on_record(true),
      control(std::make_unique<ControlServer>(state.listener, state.clients)),
      printer(spec.logging.every_seconds),
      adviser(spec, ChangeHistory::from_json(state.changes)) {
  attach_memory();
  adviser.speed_planner().profiles = profile::Profiles::from_json(state.profiles);
}

void Run::attach_memory() {
  memory = std::make_unique<comm::JobMemory>(descriptors.memory.get());
  if (!memory->is_ready()) throw Error(Fault::bug, "workers are ready but the shared memory is not");
  manifest = checkpoint::Manifest::from_json(memory->manifest());
  adviser.settle(profile_host(state.cores), state.options.allow_mixed);
}

// Leaves correct files alone: a full disk does not prevent a resume.
void Run::put_on_record() {
  if (std::exchange(on_record, true)) return;
  const auto put = [](const std::string& path, const std::string& text) {
    if (read_file_if_present(path) != text) write_file_atomically(path, text);
  };
  put(directory.spec(), spec::to_toml(spec));
  put(directory.changes(), origin.changes);
}

std::optional<comm::RecordHead> last_step_record(const comm::JobMemory& memory) {
  comm::RecordRing ring = memory.ring();
  const uint32_t published = ring.published();
  for (uint32_t back = 1; back <= std::min(published, 2u); ++back) {
    const comm::RecordHead head = *ring.at(published - back).head;
    if (head.kind == comm::RecordKind::step) return head;
  }
  return std::nullopt;
}

}  // namespace estrain::launch
