#pragma once
// Reading the past of a pool of real jobs from a file (core/planning/dispatch/trace/pool_trace.h).

#include <string>

#include "core/planning/dispatch/trace/pool_trace.h"

namespace estrain::simulate {

bool is_pool_trace(const std::string& path);
// Reads a trace, jobs in order of submission. Throws Fault::spec for missing or impossible content, Fault::io.
dispatch::PoolTrace read_pool_trace(const std::string& path);

}  // namespace estrain::simulate
