#pragma once
// Finds the Python of a user, for the user's own code.

#include <functional>
#include <string>
#include <string_view>

#include "core/base/error.h"

namespace estrain {

struct UsersPython {
  std::string program;
  std::string setting;  // names another Python: the key "model.python", the option "--python"
  std::string source;   // of `program`: the setting, or a variable; named by messages

  // An error of Fault::spec that begins with the source and advises the setting.
  Error unfit(std::string_view why) const;
};

// `named`: the value of `setting`. If empty, ESTRAIN_PYTHON of the environment says: the Python that pip installed
// estrain into (scripts/packages/wheel/__init__.py). Otherwise python3, found in PATH as a shell does. Throws
// Fault::spec.
UsersPython find_python(const std::string& named, const std::string& setting);

// Reads the traceback that Python's faulthandler writes to `notes`, a file in memory, until two readings are equal:
// Python writes line by line. Calls `pause` between two readings, and gives up when `pause` returns false. Returns the
// user's part, a line break before each line: without estrain's own code, which runs from a file in memory.
std::string users_traceback(int notes, const std::function<bool()>& pause);

}  // namespace estrain
