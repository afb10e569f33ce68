#pragma once
// How a resumed run handles a record file that a power cut or the disk has damaged (FORMAT.md, "Resuming").

#include <cstdint>
#include <string>

#include "core/base/error.h"

namespace estrain::record {

// How much of a file is looked at, back from the step that a run goes on from: more than what lay in memory alone when
// the power went.
constexpr uint64_t kCheckedBytes = uint64_t{16} << 20;

// A file that was put aside.
struct Damage {
  std::string path;
  std::string kept_as;  // whole, as it was found
  std::string why;      // the first thing that is wrong with it
};

// Keeps the file `path` under the next free name of path.damaged-1, path.damaged-2, …, and moves the file `sound` to
// its place (an empty name: nothing). Whoever reads `path` finds the old file or the new one. Throws Fault::io.
Damage put_aside(const std::string& path, const std::string& sound, std::string why);

// What a writer throws that finds a file damaged: Fault::corrupt.
Error damaged(const std::string& path, const std::string& why);

}  // namespace estrain::record
