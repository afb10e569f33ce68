#include "core/planning/simulate/pool_trace.h"

#include <algorithm>
#include <fstream>

#include "core/base/error.h"
#include "core/base/json/json_lines.h"

namespace estrain::simulate {

bool is_pool_trace(const std::string& path) {
  std::ifstream file(path);
  return file.peek() == '{';
}

dispatch::PoolTrace read_pool_trace(const std::string& path) {
  return with_context(path, [&] {
    dispatch::PoolTrace trace;
    for_each_object(path, [&](const Json& line) { trace.add(line); });
    if (trace.devices.empty() && trace.added.empty()) throw Error(Fault::spec, "no devices");
    if (trace.jobs.empty()) throw Error(Fault::spec, "no jobs");
    std::ranges::stable_sort(trace.jobs, {}, &dispatch::PastJob::submitted);
    std::ranges::stable_sort(trace.taken, {}, &dispatch::Taken::from);
    return trace;
  });
}

}  // namespace estrain::simulate
