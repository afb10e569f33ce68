#pragma once

#include <filesystem>
#include <string>

namespace estrain::spec {

// Makes a path absolute. Absolute and empty paths stay as they are; others are relative to `folder`, which is relative
// to the current folder. Symbolic links in `folder` are followed, so that ".." means its real parent. A leading
// `~` or `~user` is that home folder, as in a shell, if there is one.
std::string resolve_path(const std::string& written, const std::filesystem::path& folder);

}  // namespace estrain::spec
