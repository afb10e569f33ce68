#pragma once
// Safe writing in folders where another user may have planted something. Opens only regular files, follows no link, and
// refuses another user's file.

#include <string>

#include "core/base/files/unique_fd.h"

namespace estrain {

// Calls open(2) for writing; O_CREAT and O_TRUNC are allowed. Throws Fault::usage, naming the path and the kind of
// file, for
//   - a symbolic link, a FIFO, a device, a socket, a folder;
//   - a file that belongs neither to this user nor to the owner of the folder;
//   - a file with a second hard link in another user's folder: it may be this user's file from elsewhere;
// and Fault::io if the system refuses. Truncates only after these checks.
UniqueFd open_own_file(const std::string& path, int flags, unsigned mode = 0644);

// Makes the same checks without opening the file; a missing file is fine.
void require_own_file(const std::string& path);

// Replaces any file of this name by a new file, which the caller will rename. Throws Fault::io.
UniqueFd create_temporary(const std::string& path);

// Checks a folder for writing: the folder may be a link only if this user made the link. Throws Fault::usage.
void require_own_folder(const std::string& path);

}  // namespace estrain
