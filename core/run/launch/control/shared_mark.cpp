#include "core/run/launch/control/shared_mark.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>

#include "core/base/clock.h"
#include "core/base/files/files.h"

namespace estrain::launch {

void mark_shared(const std::string& path, bool is_shared) {
  const double until = is_shared ? std::numeric_limits<double>::infinity() : wall_seconds();
  write_file_atomically(path, fmt::format("{}\n", until));
}

double shared_until(const std::string& path) {
  const std::string text = text_if_readable(path);
  double until = 0;
  std::from_chars(text.data(), text.data() + text.size(), until);
  return until;
}

}  // namespace estrain::launch
