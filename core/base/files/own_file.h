#pragma once
// Safe writing in folders where another user may have planted something. Opens only regular files, follows no link, and
// refuses another user's file.

#include <string>

#include "core/base/files/unique_fd.h"

namespace estrain {

// Calls open(2). `flags`: O_WRONLY or O_RDWR, with O_CREAT, O_TRUNC and O_APPEND where wanted; O_CLOEXEC and
// O_NOFOLLOW are added. Throws Fault::usage, naming the path and the kind of file, for
//   - a symbolic link, a FIFO, a device, a socket, a folder;
//   - a file that belongs neither to this user nor to the owner of the folder;
//   - a file with a second hard link in another user's folder: it may be this user's file from elsewhere;
// and Fault::io if the system refuses. Truncates only after these checks.
UniqueFd open_own_file(const std::string& path, int flags, unsigned mode = 0644);

// Makes the same checks without opening the file, and throws as open_own_file(); a missing file is fine.
void require_own_file(const std::string& path);

// Removes any file at `path`, the temporary name, and creates a new file there, opened for reading and writing. The
// caller renames the new file to the final name. Throws Fault::io.
UniqueFd create_temporary(const std::string& path);

// Throws Fault::usage if `path` is a symbolic link that another user made. Accepts anything else: a missing folder, or
// another user's folder.
void require_own_folder(const std::string& path);

}  // namespace estrain
