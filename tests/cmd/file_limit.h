#pragma once

#include <doctest/doctest.h>
#include <sys/resource.h>

#include "command.h"

namespace estrain::testing {

// Makes a write beyond RLIMIT_FSIZE an error, as on a full disk, instead of a signal.
const Command::Options kSurvivesFileLimit = {.before = "trap '' XFSZ"};

// From now on, no file of the process can grow beyond `bytes`.
inline void limit_files(pid_t pid, rlim_t bytes) {
  rlimit limit{};
  REQUIRE(::prlimit(pid, RLIMIT_FSIZE, nullptr, &limit) == 0);
  limit.rlim_cur = bytes;
  REQUIRE(::prlimit(pid, RLIMIT_FSIZE, &limit, nullptr) == 0);
}

}  // namespace estrain::testing
