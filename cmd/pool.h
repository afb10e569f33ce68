#pragma once
// The commands of `estrain pool`, a file for each group.

#include "cmd/commands.h"

namespace estrain::cmd {

void add_pool_serve(CLI::App& pool, Action& chosen);
void add_pool_submit(CLI::App& pool, Action& chosen);
void add_pool_queue(CLI::App& pool, Action& chosen);    // list, status, log, cancel, release, policy
void add_pool_devices(CLI::App& pool, Action& chosen);  // devices add and remove, lend, take

}  // namespace estrain::cmd
