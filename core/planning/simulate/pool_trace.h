#pragma once
// Reading the past of a pool of real jobs from a file (core/planning/dispatch/trace/pool_trace.h).

#include <string>

#include "core/planning/dispatch/trace/pool_trace.h"

namespace estrain::simulate {

bool is_pool_trace(const std::string& path);
// The jobs are by time of submission. Throws Fault::spec for a trace that lacks something or that cannot be, Fault::io.
dispatch::PoolTrace read_pool_trace(const std::string& path);

}  // namespace estrain::simulate
