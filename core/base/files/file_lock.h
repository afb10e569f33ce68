#pragma once

#include <string>

#include "core/base/files/unique_fd.h"

namespace estrain {

// Takes the lock of an open file (flock(2)). The lock lasts while the descriptor or a copy is open; most network file
// systems enforce the lock across hosts. False: another process has the lock. Throws Fault::io with `path` if the file
// system does not support locks.
bool take_lock(int fd, const std::string& path);

// Tells whether `path` leads to this open file, or cannot be looked at: false if the file was deleted or replaced. A
// process that opens the path then gets another file, which the lock does not cover.
bool is_file_at(int fd, const std::string& path);

// Tries to take the lock of the file at `path`, which is made if there is none. Opens the file as open_own_file(),
// unless `fd` is the file already. False: another process has the lock, or the file was deleted meanwhile. Throws as
// take_lock() and open_own_file().
bool lock_file_at(const std::string& path, UniqueFd& fd, unsigned mode = 0644);

}  // namespace estrain
