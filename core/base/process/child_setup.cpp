#include "core/base/process/child_setup.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>

namespace estrain {

void set_up_child(const ChildSetup& setup) {
  if (setup.dies_with_parent) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != setup.parent) ::_exit(127);  // the parent ended before the line above
  }
  for (int number : setup.ignored_signals) ::signal(number, SIG_IGN);
  ::signal(SIGPIPE, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (setup.output >= 0) {
    ::dup2(setup.output, STDOUT_FILENO);
    ::dup2(setup.output, STDERR_FILENO);
  }
}

}  // namespace estrain
