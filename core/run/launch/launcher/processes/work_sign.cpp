#include "core/run/launch/launcher/processes/work_sign.h"

#include <unistd.h>

namespace estrain::launch {
namespace {

double seconds_of(uint64_t ticks) { return static_cast<double>(ticks) / static_cast<double>(::sysconf(_SC_CLK_TCK)); }

}  // namespace

void WorkSign::observe(int64_t now_ns, int64_t silent_since_ns, const ProcessStat& stat) {
  const bool first_look = silent_since_ns_ != silent_since_ns;
  const double none = kNone * 1e-9 * static_cast<double>(now_ns - from_ns_);
  const bool worked = !first_look && stat.processor_ticks > ticks_ && seconds_of(stat.processor_ticks - ticks_) > none;
  silent_since_ns_ = silent_since_ns;
  if (worked || stat.state == 'R') at_ns_ = now_ns;
  if (!worked && !first_look) return;
  from_ns_ = now_ns;
  ticks_ = stat.processor_ticks;
}

}  // namespace estrain::launch
