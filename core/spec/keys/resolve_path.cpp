#include "core/spec/keys/resolve_path.h"

#include <system_error>

namespace estrain::spec {
namespace fs = std::filesystem;

namespace {

fs::path real_folder(const fs::path& folder) {
  std::error_code failed;
  const fs::path absolute = fs::absolute(folder.empty() ? "." : folder, failed);
  // A relative path stays relative if nothing of it exists: make it absolute first.
  const fs::path real = fs::weakly_canonical(absolute, failed);
  return failed ? absolute : real;
}

}  // namespace

std::string resolve_path(const std::string& path, const fs::path& folder) {
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
