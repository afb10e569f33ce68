#pragma once
// Handles a record file damaged by a power cut or the disk, in a resumed run (FORMAT.md, "Resuming").

#include <cstdint>
#include <string>

#include "core/base/error.h"

namespace estrain::record {

// How much of a file is checked before the step from which a run resumes: more than could be unsynced at a power
// cut.
constexpr uint64_t kCheckedBytes = uint64_t{16} << 20;

// A file that was set aside.
struct Damage {
  std::string path;
  std::string kept_as;  // complete, as found
  std::string why;      // the first error in the file
};

// Renames the file `path` to the next free name of path.damaged-1, path.damaged-2, …, and moves the file `sound` to
// `path` (an empty name: nothing). A reader of `path` finds the old file or the new one. Throws Fault::io.
Damage put_aside(const std::string& path, const std::string& sound, std::string why);

// Returns the Fault::corrupt error of a writer that finds a damaged file.
Error damaged(const std::string& path, const std::string& why);

}  // namespace estrain::record
