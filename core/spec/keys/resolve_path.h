#pragma once

#include <filesystem>
#include <string>

namespace estrain::spec {

// Makes `path` absolute. Absolute and empty paths stay as they are; others are relative to `folder`, which is relative
// to the current folder. Symbolic links in `folder` are followed, so that ".." means its real parent. `~` has no
// special meaning.
std::string resolve_path(const std::string& path, const std::filesystem::path& folder);

}  // namespace estrain::spec
