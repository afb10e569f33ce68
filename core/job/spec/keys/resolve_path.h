#pragma once

#include <filesystem>
#include <string>

namespace estrain::spec {

// Makes a path absolute. Absolute and empty paths stay unchanged; a relative path is relative to `folder`, which is
// relative to the current folder. Symbolic links in `folder` are followed, so that ".." means the real parent. A
// leading `~` or `~user` is the user's home folder, as in a shell, if such a folder exists.
std::string resolve_path(const std::string& written, const std::filesystem::path& folder);

}  // namespace estrain::spec
