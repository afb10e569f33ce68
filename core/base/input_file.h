#pragma once
// Files that somebody else may have made, opened to be read: of a kind and a size of which reading comes to an end. A
// FIFO, a device or a socket in the place of a file is an error that names it; nobody waits for it.

#include <fcntl.h>

#include <cstdint>
#include <string>

#include "core/base/unique_fd.h"

namespace estrain {

constexpr uint64_t kMostText = uint64_t{256} << 20;  // bytes of a file that is read whole
constexpr uint64_t kMostSpec = uint64_t{1} << 20;    // of one that a person writes: a spec, fault rules

// A regular file; `flags` as for open(2). Throws Fault::io: "cannot read PATH: a FIFO, not a regular file".
UniqueFd open_input(const std::string& path, int flags = O_RDONLY);
// Without a descriptor where there is no such file.
UniqueFd open_input_if_present(const std::string& path);

// All of an open file, or of what a pipe still brings. Throws Fault::io beyond `most` bytes.
std::string read_whole(int fd, const std::string& path, uint64_t most = kMostText);

// A regular file, or a pipe: `<(…)`, /dev/stdin behind a `|`. A pipe ends when its writer closes it. Throws Fault::io
// where it brings nothing for kPipePatienceMs.
struct Input {
  std::string text;
  bool piped = false;
};
constexpr int kPipePatienceMs = 10'000;
Input read_file_or_pipe(const std::string& path, uint64_t most, int patience_ms = kPipePatienceMs);

}  // namespace estrain
