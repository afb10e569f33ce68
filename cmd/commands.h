#pragma once
// The sub-commands of estrain. Each function adds a sub-command, and sets `chosen` if the user chose this sub-command.

#include <CLI/CLI.hpp>
#include <functional>

namespace estrain::cmd {

// Returns the exit code. Throws Error.
using Action = std::function<int()>;

void add_demo(CLI::App& app, Action& chosen);
void add_init(CLI::App& app, Action& chosen);
void add_train(CLI::App& app, Action& chosen);
void add_resize(CLI::App& app, Action& chosen);
void add_change(CLI::App& app, Action& chosen);
void add_offer(CLI::App& app, Action& chosen);
void add_reclaim(CLI::App& app, Action& chosen);
void add_status(CLI::App& app, Action& chosen);
void add_stop(CLI::App& app, Action& chosen);
void add_report(CLI::App& app, Action& chosen);
void add_verify(CLI::App& app, Action& chosen);
void add_evaluate(CLI::App& app, Action& chosen);
void add_check(CLI::App& app, Action& chosen);
void add_plan(CLI::App& app, Action& chosen);
void add_simulate(CLI::App& app, Action& chosen);
void add_pool(CLI::App& app, Action& chosen);
void add_audit(CLI::App& app, Action& chosen);
void add_export(CLI::App& app, Action& chosen);
void add_weights(CLI::App& app, Action& chosen);
void add_convert(CLI::App& app, Action& chosen);
void add_help(CLI::App& app, Action& chosen);
void add_probe(CLI::App& app, Action& chosen);        // hidden: tries one mini-batch
void add_worker(CLI::App& app, Action& chosen);       // hidden: a worker process
void add_fork_server(CLI::App& app, Action& chosen);  // hidden: starts workers quickly
void add_scribe(CLI::App& app, Action& chosen);       // hidden: the scribe process
void add_agent(CLI::App& app, Action& chosen);
void add_courier(CLI::App& app, Action& chosen);  // hidden: talks to other hosts
void add_relay(CLI::App& app, Action& chosen);    // hidden: talks to workers on other hosts

}  // namespace estrain::cmd
