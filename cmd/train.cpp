#include <memory>
#include <string>
#include <vector>

#include "cmd/commands.h"
#include "cmd/job_hosts.h"
#include "cmd/validators.h"
#include "core/base/process/child_process.h"
#include "core/base/visible_text.h"
#include "core/job/spec/parsing/parse.h"
#include "core/run/launch/launcher/launcher.h"
#include "core/run/launch/launcher/parts/go_back.h"
#include "core/run/launch/launcher/processes/handover.h"
#include "core/run/launch/preflight/start.h"

namespace estrain::cmd {
namespace {

struct TrainArguments {
  launch::StartRequest request;
  std::string hosts;
  double wait_seconds = 60;
  bool print_keys = false;
  bool own_session = false;
  int handover = -1;
};

std::unique_ptr<launch::Launcher> start(TrainArguments& arguments) {
  try {
    if (!arguments.hosts.empty() || !arguments.request.listen.empty())
      wait_for_hosts(arguments.hosts, arguments.wait_seconds, arguments.request);
    return std::make_unique<launch::Launcher>(launch::plan_launch(arguments.request));
  } catch (const Error& error) {
    launch::note_failed_start(arguments.request, error);
    throw;
  }
}

int train(TrainArguments& arguments) {
  if (arguments.print_keys) {
    std::fputs(spec::key_reference().c_str(), stdout);
    return 0;
  }
  if (arguments.own_session && ::setsid() < 0) throw system_error("cannot leave the terminal's session", errno);
  try {
    if (arguments.handover >= 0) return launch::Launcher(launch::take_handover(arguments.handover)).run();
    return start(arguments)->run();
  } catch (const launch::GoBack& back) {  // the launcher's descriptors are closed by now
    fmt::print(stderr, "estrain: {}\n{}\n", visible(back.message()), visible(back.advice()));
    std::fflush(nullptr);
    replace_program(back.arguments.front(), back.arguments);
  }
}

}  // namespace

void add_train(CLI::App& app, Action& chosen) {
  CLI::App* verb = app.add_subcommand("train", "Run a job to its end");
  auto arguments = std::make_shared<TrainArguments>();
  launch::StartRequest& request = arguments->request;
  verb->add_option("SPEC", request.spec_path, "Job spec (TOML); default with --resume: the run's own");
  verb->add_option(
          "--devices", request.devices,
          "A number of CPU workers, or a list: cpu,cpu | cpu*4 | cpu:avx2 | cpu=3,cpu=5 (ESTs of each) | cuda:0 | auto")
      ->check(not_empty());
  verb->add_option("--hosts", arguments->hosts,
                   "Other hosts with an agent that take part: nodeB,nodeC, or slurm: those of the allocation. Without "
                   "--devices, all cores of all hosts")
      ->check(not_empty());
  verb->add_option("--wait-hosts", arguments->wait_seconds,
                   "With --hosts: seconds to wait until all agents answer (default 60)")
      ->check(seconds_from(0));
  verb->add_option("--listen", request.listen,
                   "Address of this host where agents join that do not see the run directory, behind its network.key: "
                   "10.0.0.1:7000, or :7000 (that of network.interface, or what the host's name leads to)")
      ->check(host_and_port(false));
  verb->add_option("--name", request.own_host,
                   "What device lists call this host (default with --hosts: its name in Slurm, or else the host's own)")
      ->check(not_empty());
  verb->add_option("--run", request.run, "Run directory (default: runs/<job name>)")->check(not_empty());
  verb->add_flag("--resume", request.resume, "Continue from the newest valid checkpoint of the run directory");
  verb->add_flag("--accept-data", request.accept_data,
                 "With --resume: accept changed data files; recorded in changes.jsonl");
  verb->add_option("--set", request.overrides, "Override a key of the spec: --set data.batch=16")
      ->take_all()
      ->expected(1);
  verb->add_flag("--allow-mixed", request.allow_mixed, "Accept devices of different kinds, which give different bits");
  verb->add_flag(
      "--background", request.background,
      "Leave processors and disks to others: workers run at the idle priority (SCHED_IDLE, nice 19, idle I/O). "
      "CPUs of this host only; the bits stay");
  verb->add_flag("--oversubscribe", request.oversubscribe, "Accept several workers on one GPU (for tests)");
  verb->add_option("--grace", request.grace_seconds,
                   "Seconds that a stop waits for the current step before abandoning it (default 30; 0: no wait)")
      ->check(seconds_from(0));
  verb->add_flag("--keys", arguments->print_keys, "Print the reference of all spec keys and exit");
  verb->add_flag("--own-session", arguments->own_session, "")->group("");
  verb->add_option("--shared-mark", request.shared_mark, "")->group("");
  verb->add_option("--handover", arguments->handover, "")->group("");
  verb->add_option("--lock", request.lock, "")->group("");
  verb->callback([arguments, &chosen] { chosen = [arguments] { return train(*arguments); }; });
}

}  // namespace estrain::cmd
