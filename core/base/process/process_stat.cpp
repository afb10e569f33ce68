#include "core/base/process/process_stat.h"

#include <fmt/format.h>

#include <sstream>
#include <string>

#include "core/base/files/files.h"

namespace estrain {

ProcessStat process_stat(pid_t pid) {
  if (pid <= 0) return {};
  const std::string text = text_if_readable(fmt::format("/proc/{}/stat", pid));
  const size_t name_end = text.rfind(')');  // a name may contain blanks and parentheses
  if (name_end == text.npos) return {};
  std::istringstream fields(text.substr(name_end + 1));
  ProcessStat stat;
  fields >> stat.state;
  std::string skipped;
  for (int field = 4; field < 14; ++field) fields >> skipped;
  uint64_t user = 0, system = 0;
  fields >> user >> system;
  stat.processor_ticks = user + system;
  return stat;
}

}  // namespace estrain
