#include "core/data/files/file_pattern.h"

#include <fnmatch.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "core/base/error.h"

namespace estrain::data {
namespace {

namespace fs = std::filesystem;

bool has_wildcard(std::string_view name) { return name.find_first_of("*?[") != name.npos; }

bool name_exists(const fs::path& path) {
  std::error_code refused;
  return fs::exists(path, refused);
}

// Adds the paths in `folder` with a name like `pattern`.
void add_matches(const fs::path& folder, const std::string& pattern, std::vector<fs::path>& paths) {
  std::error_code refused;
  const fs::path listed = folder.empty() ? fs::path(".") : folder;
  if (!fs::is_directory(listed, refused)) return;
  fs::directory_iterator at(listed, refused);
  for (; !refused && at != fs::directory_iterator(); at.increment(refused)) {
    const std::string name = at->path().filename().string();
    if (::fnmatch(pattern.c_str(), name.c_str(), FNM_PERIOD) == 0) paths.push_back(folder / name);
  }
  if (refused) throw system_error(listed.string() + ": cannot list the folder", refused.value());
}

// The paths that continue one of `folders` by the part `name` of a pattern.
std::vector<fs::path> continued(const std::vector<fs::path>& folders, const fs::path& name) {
  std::vector<fs::path> paths;
  for (const fs::path& folder : folders) {
    if (name_exists(folder / name)) {
      paths.push_back(folder / name);
    } else if (has_wildcard(name.string())) {
      add_matches(folder, name.string(), paths);
    }
  }
  return paths;
}

// The part of the pattern before its first wildcard: a folder that exists, with "/" at the end, or nothing.
size_t length_of_folder(const std::string& pattern) {
  size_t length = 0;
  for (size_t slash = pattern.find('/'); slash != pattern.npos; slash = pattern.find('/', slash + 1)) {
    if (!name_exists(pattern.substr(0, slash + 1))) break;
    length = slash + 1;
  }
  return length;
}

}  // namespace

bool is_file_pattern(const std::string& path) { return has_wildcard(path) && !name_exists(path); }

std::vector<std::string> files_like(const std::string& pattern) {
  std::vector<fs::path> found = {fs::path()};
  for (const fs::path& part : fs::path(pattern)) found = continued(found, part);
  if (found.empty())
    throw Error::make(Fault::io, "{}: no file has a name like this pattern", pattern)
        .advise("`ls` with the same pattern, unquoted, shows what a shell finds");
  std::vector<std::string> paths;
  for (const fs::path& path : found) paths.push_back(path.string());
  std::ranges::sort(paths, python_sorts_before);
  return paths;
}

std::vector<FileName> spread(const FileName& name) {
  if (!is_file_pattern(name.path)) return {name};
  const size_t folder = length_of_folder(name.path);
  std::vector<FileName> names;
  for (std::string& path : files_like(name.path)) {
    FileName file = name;
    file.what = fmt::format("{} {}", name.what, path.substr(folder));
    file.path = std::move(path);
    names.push_back(std::move(file));
  }
  return names;
}

}  // namespace estrain::data
