#pragma once
// Opens files from elsewhere with an end to every read: only regular files of a limited size. A FIFO, device or socket
// is refused by name, without waiting.

#include <fcntl.h>

#include <cstdint>
#include <string>

#include "core/base/files/unique_fd.h"

namespace estrain {

constexpr uint64_t kMostText = uint64_t{256} << 20;  // bytes: limit for files read as a whole
constexpr uint64_t kMostSpec = uint64_t{1} << 20;    // limit for files written by people: a spec, fault rules

// Opens a regular file; `flags` as for open(2). Throws Fault::io: "cannot read PATH: a FIFO, not a regular file".
UniqueFd open_input(const std::string& path, int flags = O_RDONLY);
// Returns no descriptor if the file is missing.
UniqueFd open_input_if_present(const std::string& path);

// Reads an open file or pipe to the end. Throws Fault::io beyond `most` bytes.
std::string read_whole(int fd, const std::string& path, uint64_t most = kMostText);

// A regular file, or a pipe: `<(…)`, /dev/stdin after a `|`. A pipe ends when the writer closes the pipe. Throws
// Fault::io if a pipe delivers nothing for kPipePatienceMs.
struct Input {
  std::string text;
  bool piped = false;
};
constexpr int kPipePatienceMs = 10'000;
Input read_file_or_pipe(const std::string& path, uint64_t most, int patience_ms = kPipePatienceMs);

}  // namespace estrain
