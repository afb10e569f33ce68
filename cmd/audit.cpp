#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "cmd/commands.h"
#include "cmd/validators.h"
#include "core/base/clock.h"
#include "core/base/json/json_text.h"
#include "core/run/launch/control/control_socket.h"
#include "core/run/launch/control/run_status.h"

namespace estrain::cmd {
namespace {

constexpr Nanoseconds kPatience = 5s;
constexpr auto kBetweenLooks = std::chrono::milliseconds(50);

struct AuditArguments {
  std::string run;
  double within = 600;  // seconds
  bool json = false;
};

int64_t passed(const launch::RunStatus& status) { return status.audit ? status.audit->passed.value_or(0) : 0; }

// Returns the status after one more audit has passed. Throws if no audit passes: the run's events tell the reason.
launch::AuditStatus await_audit(const AuditArguments& arguments, int64_t before) {
  const int64_t deadline = monotonic_ns() + nanoseconds(arguments.within);
  for (;;) {
    const launch::RunStatus status = launch::run_status(arguments.run);
    if (passed(status) > before) return *status.audit;
    if (!status.workers) {
      throw Error::make(Fault::peer, "the run ended before an audit passed: it is {}", status.state)
          .advise("see events.jsonl of the run");
    }
    if (monotonic_ns() > deadline) {
      throw Error::make(Fault::peer, "no audit passed within {} s", arguments.within)
          .advise("see events.jsonl of the run, and `estrain status " + arguments.run + "`");
    }
    std::this_thread::sleep_for(kBetweenLooks);
  }
}

int audit(const AuditArguments& arguments) {
  const int64_t before = passed(launch::run_status(arguments.run));
  launch::ask_launcher(arguments.run, decisions::AuditRequest{}, kPatience);
  const launch::AuditStatus audit = await_audit(arguments, before);
  if (arguments.json) {
    fmt::print("{}\n", json_text(codec::fields_of(audit)));
    return 0;
  }
  const bool blind = audit.blind.value_or(false);
  fmt::print(
      "step {}: a mini-batch computed a second time has the same bits{}; the state in memory is as it was written\n",
      audit.newest_step.value_or(0),
      blind ? " (some device has no other one of its kind beside it: if it is always wrong, audits cannot find it)"
            : "");
  return 0;
}

}  // namespace

void add_audit(CLI::App& app, Action& chosen) {
  CLI::App* verb = app.add_subcommand(
      "audit", "Find wrong results: a running job computes a mini-batch a second time on another device");
  auto arguments = std::make_shared<AuditArguments>();
  verb->add_option("RUN", arguments->run, "Run directory")->required();
  verb->add_option("--within", arguments->within, "Seconds to wait for the audit (default 600)")
      ->check(seconds_from(0.1));
  verb->add_flag("--json", arguments->json, "Print the state of audits as JSON");
  verb->callback([arguments, &chosen] { chosen = [arguments] { return audit(*arguments); }; });
}

}  // namespace estrain::cmd
