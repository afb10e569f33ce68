#pragma once

#include <string>

namespace estrain {

// Takes the lock of an open file (flock(2)), which lasts as long as the descriptor or a copy of it is open; most file
// systems that hosts share know it on all of them. False: somebody else has it. Throws Fault::io with `path` where
// there are no such locks.
bool take_lock(int fd, const std::string& path);

}  // namespace estrain
