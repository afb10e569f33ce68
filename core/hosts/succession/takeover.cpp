#include "core/hosts/succession/takeover.h"

#include <fcntl.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/process/child_process.h"
#include "core/job/placement/device.h"
#include "core/run/launch/preflight/start.h"
#include "core/state/checkpoint/directory.h"

namespace estrain::hosts {

bool sees_locks(const run_directory::RunDirectory& directory) { return !directory.try_lock(); }

Lease take_lease(const run_directory::RunDirectory& directory, const run_directory::Term& known, bool sees_locks) {
  std::optional<UniqueFd> lock = directory.try_lock();
  if (!lock) return {};
  const auto judge = [&] {
    return judge_lease(directory.owner().has_value(), known, run_directory::term_of(directory.path()));
  };
  LeaseAnswer answer = judge();
  if (answer == LeaseAnswer::over) return {answer, {}};
  if (!sees_locks) {
    try {
      directory.watch_owner();
    } catch (const Error& error) {
      if (error.fault() != Fault::usage) throw;
      return {};  // the owner is at work
    }
    answer = judge();  // the owner may have ended, or another host led
    if (answer == LeaseAnswer::over) return {answer, {}};
  }
  directory.own(*lock);
  return {answer, std::move(lock)};
}

int64_t newest_checkpoint(const run_directory::RunDirectory& directory) {
  const std::vector<Step> steps = checkpoint::CheckpointDirectory(directory.checkpoints()).steps();
  return steps.empty() ? 0 : steps.back().value;
}

bool save_state(const run_directory::RunDirectory& directory, const launch::SharedDescriptors& shared,
                int64_t records_from) {
  launch::ScribeProcess scribe = launch::start_scribe(directory, shared, records_from - 1);
  scribe.socket = {};  // the scribe takes its launcher for lost, saves the rest, and ends
  const ChildEnd end = scribe.process.wait();
  return !end.signaled && end.code == 0;
}

std::string devices_left(const HostPlan& last, const std::string& own, const std::set<std::string>& others) {
  placement::Devices left = placement::devices_from(last.devices);
  std::erase_if(left,
                [&](const placement::Device& device) { return device.host != own && !others.contains(device.host); });
  std::stable_partition(left.begin(), left.end(), [&](const placement::Device& device) { return device.host == own; });
  return placement::list_of(left);
}

void become_coordinator(const run_directory::RunDirectory& directory, const HostPlan& last, const std::string& devices,
                        const std::string& own, UniqueFd lock) {
  ::fcntl(lock.get(), F_SETFD, 0);
  launch::StartRequest request;
  request.run = directory.path();
  request.devices = devices;
  request.own_host = own;
  request.lock = lock.get();
  request.grace_seconds = last.grace_seconds;
  request.allow_mixed = last.allow_mixed;
  request.oversubscribe = last.oversubscribe;
  replace_program(running_program, launch::resume_command(request));
}

}  // namespace estrain::hosts
