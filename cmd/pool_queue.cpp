#include <memory>
#include <string>

#include "cmd/pool.h"
#include "core/base/clock.h"
#include "core/base/json/json_text.h"
#include "core/job/resources/allocation.h"
#include "core/pool/failures.h"
#include "core/pool/overview.h"
#include "core/pool/pool_request.h"
#include "core/pool/pool_trace.h"

namespace estrain::cmd {
namespace {

struct QueueArguments {
  std::string directory, policy;
  int64_t job = 0;
  bool json = false, faults = false;
};

// Read from the ledger, whether or not a daemon serves the pool.
pool::Ledger ledger_of(const std::string& directory) {
  const pool::PoolDirectory pool(directory);
  pool.require_pool();
  return pool::Ledger::open(pool.database());
}

int list(const QueueArguments& arguments) {
  const dispatch::State state = ledger_of(arguments.directory).load();
  if (arguments.json) {
    fmt::print("{}\n", json_text(pool::jobs_json(pool::PoolDirectory(arguments.directory), state)));
  } else {
    fmt::print("{}", pool::format_jobs(state, wall_seconds()));
  }
  return 0;
}

int print_failures(const QueueArguments& arguments) {
  const Json failures = pool::failures_json(ledger_of(arguments.directory).ends());
  fmt::print("{}", arguments.json ? json_text(failures) + "\n" : pool::format_failures(failures));
  return 0;
}

int status(const QueueArguments& arguments) {
  if (arguments.faults) return print_failures(arguments);
  const dispatch::State state = ledger_of(arguments.directory).load();
  const Json status = pool::status_json(state, pool::is_served(arguments.directory), wall_seconds());
  fmt::print("{}", arguments.json ? json_text(status) + "\n" : pool::format_status(status));
  return 0;
}

int log(const QueueArguments& arguments) {
  const std::vector<pool::Line> lines = ledger_of(arguments.directory).history();
  fmt::print("{}", arguments.json ? json_text(pool::history_json(lines)) + "\n" : pool::format_history(lines));
  return 0;
}

int trace(const QueueArguments& arguments) {
  pool::Ledger ledger = ledger_of(arguments.directory);
  fmt::print("{}", pool::trace_of(ledger.load(), ledger.history(), resources::current_resources().cores));
  return 0;
}

template <typename Request>
int ask(const QueueArguments& arguments, const Request& request) {
  const auto reply = pool::ask_pool(arguments.directory, request);
  if (arguments.json) fmt::print("{}\n", json_text(pool::encode_reply(reply)));
  return 0;
}

struct Verb {
  CLI::App* app;
  std::shared_ptr<QueueArguments> arguments = std::make_shared<QueueArguments>();

  Verb(CLI::App& pool, const char* name, const char* about) : app(pool.add_subcommand(name, about)) {
    app->add_option("DIR", arguments->directory, "Folder of the pool")->required();
    app->add_flag("--json", arguments->json, "Print as JSON");
  }
  void does(Action& chosen, std::function<int(const QueueArguments&)> body) {
    app->callback([arguments = arguments, body = std::move(body), &chosen] {
      chosen = [arguments, body] { return body(*arguments); };
    });
  }
};

}  // namespace

void add_pool_queue(CLI::App& pool, Action& chosen) {
  Verb(pool, "list", "All jobs: how far they are, on what, and why").does(chosen, list);
  Verb state(pool, "status", "Devices, jobs by phase, users, utilisation, faults");
  state.app->add_flag("--faults", state.arguments->faults,
                      "Instead: jobs by how they ended, and causes of failures, with their trials, jobs, users, times "
                      "and device-seconds");
  state.does(chosen, status);
  Verb(pool, "log", "What happened to which job when, and why").does(chosen, log);
  Verb(pool, "trace", "Print the jobs that are done as a trace for `estrain simulate`").does(chosen, trace);
  Verb cancel(pool, "cancel", "Take a job out of the queue; one that runs is stopped with a checkpoint");
  cancel.app->add_option("JOB", cancel.arguments->job, "Its number")->required();
  cancel.does(chosen,
              [](const QueueArguments& arguments) { return ask(arguments, pool::CancelRequest{arguments.job}); });
  Verb release(pool, "release", "Let a job start that is held, as likely to fail as others did");
  release.app->add_option("JOB", release.arguments->job, "Its number")->required();
  release.does(chosen,
               [](const QueueArguments& arguments) { return ask(arguments, pool::ReleaseRequest{arguments.job}); });
  Verb policy(pool, "policy", "Change the policy of a pool that is served");
  policy.app->add_option("POLICY", policy.arguments->policy, "NAME or NAME:KEY=VALUE:…")->required();
  policy.does(chosen,
              [](const QueueArguments& arguments) { return ask(arguments, pool::PolicyRequest{arguments.policy}); });
}

}  // namespace estrain::cmd
