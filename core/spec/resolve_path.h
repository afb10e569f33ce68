#pragma once

#include <filesystem>
#include <string>

namespace estrain::spec {

// `path` as an absolute one: absolute paths and the empty one as they are, others taken from `folder` (itself taken
// from the current folder; symbolic links in it are followed, so that ".." means its real parent). `~` is a name like
// any other.
std::string resolve_path(const std::string& path, const std::filesystem::path& folder);

}  // namespace estrain::spec
