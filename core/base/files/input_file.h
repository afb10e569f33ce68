#pragma once
// Opens and reads files from elsewhere, regular files up to a limit: every read ends. A FIFO, device or socket is
// refused without waiting, by an error that names the kind. Only read_file_or_pipe() also takes a pipe or FIFO.

#include <fcntl.h>

#include <chrono>
#include <cstdint>
#include <string>

#include "core/base/files/unique_fd.h"

namespace estrain {

constexpr uint64_t kMostText = uint64_t{256} << 20;  // bytes: limit for files read as a whole
constexpr uint64_t kMostSpec = uint64_t{1} << 20;    // bytes: limit for files written by people: a spec, fault rules

// Opens a regular file; `flags` of open(2). Throws Fault::io, as "cannot read PATH: a FIFO, not a regular file".
UniqueFd open_input(const std::string& path, int flags = O_RDONLY);
// Does the same, for reading, but returns an empty UniqueFd if the file is missing.
UniqueFd open_input_if_present(const std::string& path);

// Reads an open file or pipe to the end, without a time limit; `path` is for messages. Throws Fault::io beyond `most`.
std::string read_whole(int fd, const std::string& path, uint64_t most = kMostText);

// A regular file, or a pipe: `<(…)`, /dev/stdin after a `|`. A pipe ends when the writer closes the pipe.
// read_file_or_pipe() throws Fault::io beyond `most` bytes, or after `patience` without a byte from the pipe.
struct Input {
  std::string text;
  bool piped = false;
};
constexpr std::chrono::seconds kPipePatience{10};
Input read_file_or_pipe(const std::string& path, uint64_t most, std::chrono::milliseconds patience = kPipePatience);

}  // namespace estrain
