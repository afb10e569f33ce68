#include "core/base/process/python.h"

#include <unistd.h>

#include <filesystem>
#include <sstream>
#include <utility>

#include "core/base/files/memory_file.h"
#include "core/base/process/child_process.h"

namespace estrain {
namespace {

bool can_run(const std::string& path) {
  std::error_code failed;
  return std::filesystem::is_regular_file(path, failed) && ::access(path.c_str(), X_OK) == 0;
}

UsersPython python_of_path(const std::string& setting) {
  std::istringstream folders(environment_variable("PATH").value_or("/usr/bin:/bin"));
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::string python = (folder.empty() ? "." : folder) + "/python3";
    if (can_run(python)) return {python, setting, setting};
  }
  throw UsersPython{"", setting, setting}.unfit("there is no python3 in PATH");
}

}  // namespace

Error UsersPython::unfit(std::string_view why) const {
  return Error::make(Fault::spec, "{}: {}", source, why)
      .advise(fmt::format("name a Python with {}, such as \"venv/bin/python\"", setting));
}

UsersPython find_python(const std::string& named, const std::string& setting) {
  constexpr const char* variable = "ESTRAIN_PYTHON";
  UsersPython python{named, setting, setting};
  if (named.empty()) python = {environment_variable(variable).value_or(""), setting, variable};
  if (python.program.empty()) return python_of_path(setting);
  if (can_run(python.program)) return python;
  throw python.unfit(python.program + " is no program");
}

std::string users_traceback(int notes, const std::function<bool()>& pause) {
  std::string trace = read_memory_file(notes);
  for (std::string before; (trace.empty() || trace != before) && pause(); trace = read_memory_file(notes))
    before = std::move(trace);
  std::istringstream lines(trace);
  std::string kept;
  for (std::string line; std::getline(lines, line);)
    if (!line.empty() && line.find("/proc/self/fd/") == line.npos && !line.starts_with("Extension modules"))
      kept += "\n" + line;
  return kept;
}

}  // namespace estrain
