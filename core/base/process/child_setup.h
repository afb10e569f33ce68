#pragma once
// The first actions of a new child, which executes a program or is a copy (fork_server.h).

#include <sys/types.h>

#include <span>

namespace estrain {

struct ChildSetup {
  pid_t parent = 0;
  bool dies_with_parent = true;  // SIGKILL when the parent's thread ends
  std::span<const int> ignored_signals;
  int output = -1;  // becomes stdout and stderr; -1: both stay
};

// Makes only async-signal-safe calls. Exits with 127 if the parent has ended already and the child must end with it.
void set_up_child(const ChildSetup& setup);

}  // namespace estrain
