#include "core/job/spec/keys/resolve_path.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>

#include "core/base/process/child_process.h"

namespace estrain::spec {
namespace fs = std::filesystem;

namespace {

fs::path real_folder(const fs::path& folder) {
  std::error_code failed;
  const fs::path absolute = fs::absolute(folder.empty() ? "." : folder, failed);
  // A relative path stays relative if none of its parts exists: make the path absolute first.
  const fs::path real = fs::weakly_canonical(absolute, failed);
  return failed ? absolute : real;
}

// Returns the home folder of a user, or of this process's user for an empty name; empty without a home folder.
std::string home_of(const std::string& name) {
  std::string own = environment_variable("HOME").value_or("");
  if (name.empty() && !own.empty()) return own;
  const passwd* user = name.empty() ? ::getpwuid(::getuid()) : ::getpwnam(name.c_str());
  return user == nullptr ? "" : user->pw_dir;
}

// Resolves "~/x" and "~user/x" as a shell does; returns any other path unchanged.
std::string with_home(const std::string& path) {
  if (!path.starts_with('~')) return path;
  const size_t slash = std::min(path.find('/'), path.size());
  const std::string home = home_of(path.substr(1, slash - 1));
  return home.empty() ? path : home + path.substr(slash);
}

}  // namespace

std::string resolve_path(const std::string& written, const fs::path& folder) {
  std::string path = with_home(written);
  if (path.empty() || fs::path(path).is_absolute()) return path;
  fs::path resolved = real_folder(folder);
  bool leading = true;  // after a name, ".." is left to the file system, since the name may be a symbolic link
  for (const fs::path& part : fs::path(path)) {
    if (part == "." || part.empty()) continue;
    leading = leading && part == "..";
    resolved = leading ? resolved.parent_path() : resolved / part;
  }
  return resolved.string();
}

}  // namespace estrain::spec
