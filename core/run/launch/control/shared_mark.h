#pragma once
// A mark tells a run until when others used its devices, too: a pool lets guests there. Speeds measured meanwhile are
// not the job's own. The mark is a file, with a moment in seconds since 1970; "inf" while the devices are shared. The
// pool's daemon writes the file, and the run's launcher reads it: neither waits for the other.

#include <string>

namespace estrain::launch {

// Throws Fault::io.
void mark_shared(const std::string& path, bool is_shared);
// Returns the moment; 0 if there is no readable mark.
double shared_until(const std::string& path);

}  // namespace estrain::launch
