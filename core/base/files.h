#pragma once
// Whole files: read at once, replaced at once. All paths in messages are as given.

#include <optional>
#include <string>
#include <string_view>

#include "core/base/unique_fd.h"

namespace estrain {

// A regular file of at most kMostText bytes (input_file.h). Throws Fault::io with the path.
std::string read_file(const std::string& path);
std::optional<std::string> read_file_if_present(const std::string& path);

// For what the system shows of itself: nothing where it shows nothing.
std::string text_if_readable(const std::string& path);

// Readers see the old content or the new, never a mixture, also after a crash: temporary name, fsync, rename, fsync of
// the folder. Throws Fault::io.
void write_file_atomically(const std::string& path, std::string_view content);

// Appends the line and its end, or, where the system refuses (a full disk), nothing; a line that a crash left
// unfinished at the end is dropped. For files that one process writes; not synced. What may stand there: own_file.h.
void append_line(const std::string& path, std::string line);

// open(2) with O_CLOEXEC; throws Fault::io with the path.
UniqueFd open_file(const std::string& path, int flags, unsigned mode = 0644);

void make_folders(const std::string& path);
void sync_folder(const std::string& path);

}  // namespace estrain
