#pragma once
// Signals that are read from a descriptor, in a loop that polls.

#include <initializer_list>

#include "core/base/files/unique_fd.h"

namespace estrain::serve {

// These are blocked from now on; the descriptor gives a signalfd_siginfo (signalfd(2)) for each. Throws Fault::io.
UniqueFd watch_signals(std::initializer_list<int> numbers);

}  // namespace estrain::serve
