#include <grp.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <memory>
#include <string>

#include "cmd/job_hosts.h"
#include "cmd/pool.h"
#include "cmd/validators.h"
#include "core/base/process/watched_signals.h"
#include "core/job/resources/allocation.h"
#include "core/planning/scheduling/policy.h"
#include "core/pool/daemon/daemon.h"

namespace estrain::cmd {

constexpr std::string_view kDevicesOfSlurm = "slurm";

namespace {

// Jobs run as the daemon's user, and a job may have code of its own.
uint32_t group_named(const std::string& name) {
  if (::geteuid() == 0) {
    throw Error::make(Fault::usage, "--group {}: the group's jobs would run as root, with all of root's rights", name)
        .advise("serve the pool as another user");
  }
  const group* entry = ::getgrnam(name.c_str());
  if (entry == nullptr)
    throw Error::make(Fault::usage, "--group {}: there is no such group", name).advise("see `getent group`");
  return entry->gr_gid;
}

}  // namespace

void add_pool_serve(CLI::App& pool, Action& chosen) {
  CLI::App* verb = pool.add_subcommand("serve", "Own devices and run the jobs of the queue on them");
  auto options = std::make_shared<pool::ServeOptions>();
  verb->add_option("DIR", options->directory, "Folder of the pool; made where there is none")
      ->required()
      ->check(not_empty());
  verb->add_option(
          "--devices", options->devices,
          "Devices of this host for the pool, as for train; none: only agents bring some; slurm: all cores of the "
          "nodes of this allocation, where the pool starts agents (default: those it had before)")
      ->check(not_empty());
  verb->add_option("--name", options->name,
                   "What the pool calls this host before others (default: its name in Slurm, or else the host's own)")
      ->check(not_empty());
  verb->add_option(
          "--policy", options->policy,
          "NAME or NAME:KEY=VALUE:… (default: the one before; for a new pool: " + std::string(pool::kDefaultPolicy) +
              "). Policies that choose batches do so only for jobs with elastic.batch. All:\n" +
              scheduling::describe_policies(true))
      ->check(not_empty());
  verb->add_option("--round", options->settings.round, "Seconds between decisions at the most")
      ->check(seconds_from(0.1))
      ->capture_default_str();
  verb->add_option("--retries", options->settings.retries, "Times that a job is tried again without a step in between")
      ->capture_default_str();
  verb->add_option("--hold-after", options->settings.hold_after,
                   "Failed jobs of a user by one cause, none done in between, after which the user's jobs are held "
                   "until `estrain pool release`, as are jobs on a file found damaged; 0: no job is held")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 20))
      ->capture_default_str();
  verb->add_option(
          "--tolerate", options->tolerance,
          "By how much a guest (submit --background) may lengthen the steps of the job beside it: 5%; a guest that "
          "does more in three windows in a row leaves this job for good (default: the one before; at first 5%)")
      ->transform(as_part());
  verb->add_option("--memory", options->memory,
                   "Memory of this host for the pool's jobs, such as 64GB: a job starts and grows where it fits beside "
                   "the others (default: the machine's, or the cgroup's limit, less a sixteenth)")
      ->transform(as_memory());
  verb->add_option("--rack", options->rack, "Rack of this host, as --rack of agents (default: the one before)")
      ->check(not_empty());
  auto group = std::make_shared<std::string>();
  verb->add_option("--group", *group,
                   "Group whose members may use the pool, too: submit jobs, and cancel and release their own (default: "
                   "only this user and root)")
      ->check(not_empty());
  verb->add_option("--seed", options->seed, "Seed of a new pool for policies that choose at random (default 1)");
  verb->callback([options, group, &chosen] {
    chosen = [options, group] {
      if (!group->empty()) options->group = group_named(*group);
      if (options->name.empty()) options->name = own_host_name();
      if (options->devices == kDevicesOfSlurm) {
        options->nodes = named_hosts("slurm", "--devices");
        options->devices = std::to_string(resources::current_resources().cores);
      }
      return pool::Daemon(*options, watch_signals(std::array{SIGTERM, SIGINT})).run();
    };
  });
}

}  // namespace estrain::cmd
