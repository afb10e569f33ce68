#pragma once
// Files that this program writes, in folders where somebody may have put something in their place before. What is
// opened is a regular file, not what a link of that name points to, and not another's.

#include <string>

#include "core/base/unique_fd.h"

namespace estrain {

// open(2) for writing; O_CREAT and O_TRUNC are allowed. Throws Fault::usage, naming the path and what is there, for
//  - a symbolic link, a FIFO, a device, a socket, a folder;
//  - a file that belongs neither to this user nor to the owner of its folder;
//  - a file with a second name (a hard link) in a folder that is another user's, for it may be a file of this user's
//    that lies elsewhere;
// and Fault::io where the system refuses. Nothing is cut off before this is known.
UniqueFd open_own_file(const std::string& path, int flags, unsigned mode = 0644);

// The same question of what would be opened, without opening it; nothing there is fine.
void require_own_file(const std::string& path);

// A new file in place of whatever has that name: for what will be renamed. Throws Fault::io.
UniqueFd create_temporary(const std::string& path);

// A folder to write files in: it may be a link if this user made it. Throws Fault::usage.
void require_own_folder(const std::string& path);

}  // namespace estrain
